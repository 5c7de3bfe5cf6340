// A queue of bytes in shared memory with one writer and one reader. Messages are streamed: a long
// one passes in parts while the writer is still copying, so neither end needs room for all of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/bytes.h"

namespace lockstep {

// What precedes a message's bytes. Both are padded to kFrameAlign, so that no element of any type
// is cut.
struct ShmFrame {
  std::uint64_t size;
  std::uint64_t
      offset;           // with a window: where in it the bytes are. They don't follow then, and the
  std::int32_t window;  // reader consumes the frame when it has taken them. The window is 1 + its
  std::int32_t pid;     // descriptor in this process; 0: none
  std::uint32_t key;
  std::uint8_t format;
  std::uint8_t unused[3];
};
inline constexpr std::size_t kFrameAlign = 32;
static_assert(sizeof(ShmFrame) == kFrameAlign);

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
}

struct ShmRing {
  static constexpr std::size_t kBytes = 256 << 10;
  static constexpr std::size_t kPart =
      32 << 10;  // published at once: small enough to overlap both ends

  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::byte data[kBytes];

  // Writer: the longest run that can be filled in one piece, after `filled` bytes not yet
  // published.
  Bytes room(std::size_t filled) {
    const std::uint64_t at = written.load(std::memory_order_relaxed) + filled;
    const std::size_t free = kBytes - (at - read.load(std::memory_order_acquire));
    const std::size_t offset = at % kBytes;
    return {data + offset, std::min(free, kBytes - offset)};
  }
  void publish(std::size_t bytes) {
    written.store(written.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }

  // Reader: the longest run that can be taken in one piece.
  ConstBytes content() const {
    const std::uint64_t at = read.load(std::memory_order_relaxed);
    const std::size_t filled = written.load(std::memory_order_acquire) - at;
    const std::size_t offset = at % kBytes;
    return {data + offset, std::min(filled, kBytes - offset)};
  }
  void consume(std::size_t bytes) {
    read.store(read.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }
};

}  // namespace lockstep
