// Reduce: on return the root has the total over all ranks; the others' values are partial sums of
// no use. Up a binomial tree, pipelined: ceil(log2 m) rounds; every rank but the root sends N.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// UsageError if there is no such root.
void reduce(Transport&, Tag, Values, int root = 0);

}  // namespace lockstep
