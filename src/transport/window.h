// A buffer of this rank that its host's peers map, so that a collective can work in place.
//
// Any lane of the rank can use it, beside the others. The lane that opened it has a Window that its
// caller owns; Transport::window_at() of another lane gives that lane a Window of its own. Each
// belongs to the thread of its lane. They have the same memory, and the members meet on each lane
// apart. The owner destroys its Window before its Transport, and no lane uses the memory after
// that.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "transport/tag.h"

namespace lockstep {

// The members of a window as Transport::open_window() is given them: none stand for all ranks.
inline std::vector<int> members_or_all(std::span<const int> members, int ranks) {
  std::vector<int> all(members.begin(), members.end());
  if (all.empty())
    for (int r = 0; r < ranks; ++r) all.push_back(r);
  return all;
}

class Window {
 public:
  virtual ~Window() = default;

  // Ranks of the opening transport that share this window, ascending; and where they are.
  virtual std::span<const int> members() const = 0;
  // Are all members on this host, so that of() reaches every one?
  virtual bool reaches_all() const = 0;
  virtual Bytes mine() const = 0;
  // The peer's memory: what it wrote before a meet() is seen after it. Empty: on another host.
  virtual Bytes of(int rank) const = 0;

  // What a rank says at a meeting, so that ranks that came for different things find out.
  using Words = std::array<std::uint64_t, 3>;
  // Returns when every member has called it on this lane (REQUIRES reaches_all). Returns the first
  // member whose words differ from mine, or -1. A dead or departed member, or one that does not
  // come for as long as the transport is patient: TransportError naming it.
  virtual int meet(const Words& words) = 0;
  // What `rank` said at the last meeting of this lane.
  virtual Words said(int rank) const = 0;

  // Accounts for bytes that this rank read from and wrote to a peer's memory: the ledger counts
  // them, and the simulated world charges their time.
  virtual void moved(int /*peer*/, Tag, std::size_t /*read*/, std::size_t /*written*/) {}
};

}  // namespace lockstep
