// What goes round the ring, besides the all-reduce of that name.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Reduce-scatter: on return chunk r of rank r's values (see slices.h) is the total over all ranks.
// The other chunks hold partial sums of no use. m-1 rounds; rank r sends N - |c_r|. Chunk c is
// summed in the order c+1, c+2, … c of ranks.
void reduce_scatter(Transport&, Tag, Values);
// The ring among some of a job's ranks, each of which comes with a part of the total: every rank of
// the transport ends with the total over `ranks` ranks, which a mean is divided by.
void ring_total(Transport&, Tag, Values, int ranks);

}  // namespace lockstep
