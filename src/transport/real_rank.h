// A rank in the real world: wall time, one thread for the background, a mutex. Owns its lanes.
#pragma once

#include <memory>

#include "transport/rank.h"

namespace lockstep {

// Seconds of the machine's monotonic clock: one timeline for all processes of a host.
double wall_now();
// Seconds since 1970, as people and other programs date files: jumps when the clock is set.
double calendar_now();

// How many lanes a transport opens for each rank: the rank's own and its background's.
inline constexpr int kLanes = 2;

class RealRank {
 public:
  // Lane 0 serves the rank's thread, lane 1 its background thread, which starts with the first job.
  RealRank(std::unique_ptr<Transport> lane, std::unique_ptr<Transport> background_lane,
           std::uint64_t seed);
  // Waits for the job that runs, drops the others, leaves.
  ~RealRank();

  Rank& rank();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
