// A queue of bytes in shared memory with one writer and one reader. Messages are streamed: a long
// one passes in parts while the writer is still copying, so neither end needs room for all of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/bytes.h"

namespace lockstep {

// What precedes a message's bytes. Both are padded to kFrameAlign, so that no element of any type
// is cut.
struct ShmFrame {
  std::uint64_t size;
  // With a window: where in it the bytes are. They don't follow then, and the reader consumes the
  // frame when it has taken them.
  std::uint64_t offset;
  std::int32_t window;  // 1 + its descriptor in this process; 0: none
  std::int32_t pid;
  std::uint32_t key;
  std::uint8_t format;
  // Of a frame with a window; changed in the ring, by both ends. The reader claims the bytes before
  // it looks at them. The writer takes back what is not claimed. What is claimed, and not taken for
  // long, it may disown: then the reader drops what it has.
  enum Hold : std::uint8_t { offered, claimed, taken, taken_back, disowned };
  std::uint8_t hold;
  std::uint8_t unused[2];
};
// True: the frame in the ring was held so, and is now held otherwise.
inline bool change_hold(std::byte* frame, ShmFrame::Hold from, ShmFrame::Hold to) {
  std::uint8_t was = from;
  return std::atomic_ref(reinterpret_cast<std::uint8_t&>(frame[offsetof(ShmFrame, hold)]))
      .compare_exchange_strong(was, to);
}
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

  // Of what is written and not yet consumed.
  std::byte* at(std::uint64_t position) { return data + position % kBytes; }

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
