// --fault and --shape: a worse network than there is, on purpose.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "train/config.h"
#include "transport/faulty.h"
#include "transport/rank.h"
#include "transport/shaped.h"

namespace lockstep {

struct Conditions {
  std::vector<Fault> faults;
  std::optional<Link> link;  // between any two ranks
};
// UsageError.
Conditions conditions_from(const TrainConfig&);

// A rank's lines under those conditions, those of its jobs among them; the rank as it is where
// there are none. `rank` outlives this. `sleep` and `die`: see transport/held_back.h and faulty.h;
// they are called on all lanes. A link is one, whatever uses it; faults are counted by lane.
class Conditioned {
 public:
  Conditioned(Rank& rank, const Conditions&, const Sleep& sleep, Faulty::Die die = {});
  ~Conditioned();
  Rank& rank() { return rank_; }

 private:
  class Lane;
  class LaneOfJobs;
  struct Setting;
  Conditioned(Rank& rank, const Setting&);

  const std::unique_ptr<Lane> lane_;
  const std::unique_ptr<Background> background_, scoring_;  // none: the rank's own
  Rank rank_;
};

}  // namespace lockstep
