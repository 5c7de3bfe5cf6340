// Broadcast: on return every rank has the root's values. Down a binomial tree, pipelined: ceil(log2
// m) rounds; a rank sends N to each child, N(m-1) in total and at most N ceil(log2 m), by the root.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// UsageError if there is no such root.
void broadcast(Transport&, Tag, Values, int root = 0);

}  // namespace lockstep
