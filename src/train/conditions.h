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

// A rank's lines under those conditions; the rank as it is where there are none. `rank` outlives
// this. `sleep` and `die`: see transport/held_back.h and faulty.h.
class Conditioned {
 public:
  Conditioned(Rank& rank, const Conditions&, const Sleep& sleep, Faulty::Die die = {});
  Rank& rank() { return rank_; }

 private:
  std::unique_ptr<Transport> shaped_, faulty_;
  Rank rank_;
};

}  // namespace lockstep
