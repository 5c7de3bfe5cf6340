// The sentences of TransportErrors, said the same way by every transport.
#pragma once

#include <string>

#include "core/error.h"
#include "transport/tag.h"

namespace lockstep {

// `reason` completes "rank 3 died: …"; may be empty.
TransportError died(int peer, const std::string& reason);
// A peer that is gone without a sign of death. `waiter` waited for (peer, tag).
TransportError departed(int peer, int waiter, Tag tag);
// Nothing came in time.
TransportError too_late(int peer, int waiter, Tag tag);
TransportError wrong_format(int peer, std::uint8_t sent, int waiter, std::uint8_t expected,
                            Tag tag);
TransportError too_long(int peer, std::size_t sent, int waiter, std::size_t room, Tag tag);

// Who is to be named when a rank leaves early: the rank whose end made it leave, and how that
// ended. A transport remembers the last such error it threw and passes it on when it leaves, so
// that a chain of ranks giving up one after the other names the first.
struct Blame {
  int rank = -1;
  bool died = false;
  bool nobody() const { return rank < 0; }
};
Blame blame_of(const TransportError&);
// What a rank waiting for `peer`, which left with `blame`, is told.
TransportError gone(int peer, Blame blame, int waiter, Tag tag);

// UsageError unless 0 <= peer < size and peer != rank.
void check_peer(int peer, int rank, int size, const char* verb);

}  // namespace lockstep
