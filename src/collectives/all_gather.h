// All-gather: rank r comes with its own part of the values in place; on return everyone has all
// parts. Round the ring: m-1 rounds; rank r sends N less the part of rank r+1.
#pragma once

#include <span>

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Rank r's part is chunk r (see slices.h).
void all_gather(Transport&, Tag, Values);
// Rank r's part has counts[r] values, and parts lie one after the other in rank order. All ranks
// come with the same counts. UsageError unless there is a count for every rank and they fill the
// values.
void all_gather_v(Transport&, Tag, Values, std::span<const std::size_t> counts);

}  // namespace lockstep
