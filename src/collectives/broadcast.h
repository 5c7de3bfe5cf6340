// From one rank, the root, to all others and back, along a binomial tree, pipelined: ceil(log2 m)
// rounds. UsageError if there is no such root.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Broadcast: on return every rank has the root's values. A rank sends N to each child, N(m-1) in
// total and at most N ceil(log2 m), by the root.
void broadcast(Transport&, Tag, Values, int root = 0);
// Reduce: on return the root has the total over all ranks; the others' values are partial sums of
// no use. Every rank but the root sends N.
void reduce(Transport&, Tag, Values, int root = 0);

}  // namespace lockstep
