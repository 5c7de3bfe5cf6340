// Windows in shared memory: each member's buffer is a segment of its own, which the others map. A
// meeting is one cache line a member, written by it and read by all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/shm_host.h"
#include "transport/transport.h"

namespace lockstep {

class ShmWindow;

// A place in a window of one rank, as another process can find it.
struct ShmReference {
  std::int32_t pid = 0, fd = -1;
  std::uint64_t offset = 0;
};

// The open windows of one lane.
class ShmWindows {
 public:
  void add(ShmWindow* window) { open_.push_back(window); }
  void remove(ShmWindow* window) { std::erase(open_, window); }

  Window* at(const void* address) const;
  // If these bytes lie in a window that `peer` maps too.
  std::optional<ShmReference> reference_to(ConstBytes, int peer) const;
  // The bytes of `peer` referred to. Maps them for a while if the window is not open here (any
  // more). `take` is called once, with them.
  void take(int peer, ShmReference, std::size_t size,
            const std::function<void(ConstBytes)>& take) const;

 private:
  std::vector<ShmWindow*> open_;
};

// What a window needs of the transport that opens it. All outlive the window.
struct ShmWindowOwner {
  Transport& transport;
  ShmHost& host;
  int lane;
  ShmWindows& open;                // the transport's list of its windows
  std::function<void()> progress;  // moves messages while a meeting waits
};

std::unique_ptr<Window> open_shm_window(const ShmWindowOwner&, std::size_t bytes,
                                        std::span<const int> members);

}  // namespace lockstep
