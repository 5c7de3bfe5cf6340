// Ranks that meet every few microseconds or milliseconds, each on a core of its own.
#pragma once

namespace lockstep {

// As mpirun does for its ranks: where each can have a core of its own, it stays there. Else two
// that meet often may share one for a whole measurement.
void bind_to_core(int rank, int ranks);

}  // namespace lockstep
