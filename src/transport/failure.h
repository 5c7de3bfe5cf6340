// The sentences of TransportErrors, said the same way by every transport.
#pragma once

#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/error.h"
#include "transport/tag.h"

namespace lockstep {

// `reason` completes "rank 3 died: …"; may be empty.
TransportError died(int peer, const std::string& reason);
// A peer that is gone without a sign of death. `waiter` waited for (peer, tag).
TransportError departed(int peer, int waiter, Tag tag);
// Nothing came in time.
TransportError too_late(int peer, int waiter, Tag tag);
// A message of that format and length, where `waiter` has room for so many bytes of `tag`. None: it
// fits.
std::optional<TransportError> misfit(int peer, std::uint8_t format, std::size_t bytes, int waiter,
                                     Tag tag, std::size_t room);

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
// UsageError if the bytes are hollow: a real wire carries real ones.
void check_real(ConstBytes);

}  // namespace lockstep
