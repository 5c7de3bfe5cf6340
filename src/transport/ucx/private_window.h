// Windows where no memory is shared with anybody: of(peer) is empty for every peer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transport/window.h"

namespace lockstep {

// The open ones of one transport. Outlives them.
class PrivateWindows {
 public:
  // `members` empty: all of `ranks`.
  std::unique_ptr<Window> open(std::size_t bytes, std::span<const int> members, int rank,
                               int ranks);
  Window* at(const void* address) const;

 private:
  class PrivateWindow;
  std::vector<Window*> open_;
};

}  // namespace lockstep
