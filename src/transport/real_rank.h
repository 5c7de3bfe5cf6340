// A rank in the real world: wall time, a thread for each lane beside its own, a mutex. Owns its
// lanes.
#pragma once

#include <memory>
#include <vector>

#include "transport/lanes.h"
#include "transport/rank.h"

namespace lockstep {

// Seconds of the machine's monotonic clock: one timeline for all processes of a host.
double wall_now();
// Seconds since 1970, as people and other programs date files: jumps when the clock is set.
double calendar_now();

class RealRank {
 public:
  // All of Lanes, in its order. The rank's own serves its thread; the thread of another starts with
  // the first job there.
  RealRank(std::vector<std::unique_ptr<Transport>> lanes, std::uint64_t seed);
  // Waits for the jobs that run, drops the others, leaves.
  ~RealRank();

  Rank& rank();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
