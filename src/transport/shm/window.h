// Windows in shared memory: each member's buffer is a segment of its own, which the others map. A
// meeting is one cache line a member and lane, written by that lane and read by the same lane of
// all members.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/shm/host.h"
#include "transport/transport.h"

namespace lockstep {

class ShmWindow;

// A place in a window of one rank, as another process can find it.
struct ShmReference {
  std::int32_t pid = 0, fd = -1;
  std::uint64_t offset = 0;
};

// The windows of a rank as one of its lanes uses them. Belongs to the lane's thread.
class ShmWindows {
 public:
  // `transport` is the lane. `progress` moves its messages while a meeting waits. All outlive this.
  ShmWindows(Transport& transport, ShmHost& host, int lane, std::function<void()> progress);

  std::unique_ptr<Window> open(std::size_t bytes, std::span<const int> members);
  Window* at(const void* address);

  // If these bytes lie in a window that `peer` maps too.
  std::optional<ShmReference> reference_to(ConstBytes, int peer) const;
  // The bytes of `peer` referred to. Maps them for a while if the window is not open here (any
  // more). `take` is called once, with them.
  void take(int peer, ShmReference, std::size_t size,
            const std::function<void(ConstBytes)>& take) const;

 private:
  friend class ShmWindow;

  Transport& transport_;
  ShmHost& host_;
  const int lane_;
  const std::function<void()> progress_;
  std::vector<ShmWindow*> open_;  // by this lane
};

}  // namespace lockstep
