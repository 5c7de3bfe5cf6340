// The lanes that a transport opens for each rank. Each belongs to a thread (in simulation an actor)
// of its own and has a purpose of its own; messages of one lane never meet those of another.
#pragma once

namespace lockstep {

inline constexpr int kOwnLane = 0;         // the rank's own
inline constexpr int kBackgroundLane = 1;  // what a strategy does beside the computation
// What looks at a run and is no part of it. Where ranks are processes or threads its thread has a
// low priority; in simulation its bytes take the network's latency and none of its bandwidth, so
// that they slow nothing down.
inline constexpr int kScoringLane = 2;
inline constexpr int kLanes = 3;

}  // namespace lockstep
