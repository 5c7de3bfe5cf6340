// Reduce-scatter: on return chunk r of rank r's values (see slices.h) is the total over all ranks.
// The other chunks hold partial sums of no use. Round the ring: m-1 rounds; rank r sends N - |c_r|.
// Chunk c is summed in the order c+1, c+2, … c of ranks.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

void reduce_scatter(Transport&, Tag, Values);

}  // namespace lockstep
