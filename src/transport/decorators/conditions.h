// --fault and --shape: faults and a slower network, put on a rank by decorators of its lanes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/decorators/faulty.h"
#include "transport/decorators/shaped.h"
#include "transport/rank_view.h"

namespace lockstep {

struct Conditions {
  std::vector<Fault> faults;
  std::optional<Link> link;  // between any two ranks
};
// From the texts of the two flags, for so many ranks. UsageError.
Conditions conditions_from(std::span<const std::string> faults, const std::string& shape,
                           int ranks);

// The rank under those conditions, which hold for its background jobs too; without conditions it is
// the rank as it was. `rank` outlives this. `sleep` and `die` (see held_back.h and faulty.h) are
// called on all lanes. All lanes share one link to a peer; each lane counts its faults by itself.
class Conditioned {
 public:
  Conditioned(Rank& rank, const Conditions&, const Sleep& sleep, Faulty::Die die = {});
  ~Conditioned();
  Rank& rank() { return view_.rank(); }

 private:
  class Lane;
  class LaneOfJobs;
  struct Setting;
  Conditioned(Rank& rank, const Setting&);

  const std::unique_ptr<Lane> lane_;
  RankView view_;
};

}  // namespace lockstep
