// All-gather: rank r comes with its own part of the values in place; on return everyone has all
// parts. Round the ring: m-1 rounds; rank r sends N less the part of rank r+1, where N is the sum
// of all parts.
#pragma once

#include <span>
#include <vector>

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Rank r's part is chunk r (see slices.h).
void all_gather(Transport&, Tag, Values);
// Rank r's part has counts[r] values, and parts lie one after the other in rank order. All ranks
// come with the same counts. UsageError unless there is a count for every rank and they fill the
// values.
void all_gather_v(Transport&, Tag, Values, std::span<const std::size_t> counts);
// Rank r's part has a length that only it knows: `count` values, or none. `slots` are m slots of
// equal length, the same on all ranks, and part r lies at the beginning of slot r; what lies behind
// the parts is left as it is. Returns the count of every rank. Besides its parts a rank sends its
// count to each other rank, 8 bytes each, in one round before the ring. UsageError unless the slots
// are equal and hold the part; a `mismatch` names a rank that comes with more than a slot.
std::vector<std::size_t> all_gather_slots(Transport&, Tag, Values slots, std::size_t count);

}  // namespace lockstep
