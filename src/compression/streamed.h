// Results that are written past the caches where they are long: then their old contents are not
// read first, which is a third of what memory has to carry. Whoever reads them next would not have
// found them in a cache anyway.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "compression/kernels.h"

namespace lockstep {

// From here on results are long: more than a core's own caches hold.
inline constexpr std::size_t kStreamedBytes = 4 << 20;

// Belongs to one thread. Others see all that was written when it goes, and they are told.
template <class T>
class Streamed {
 public:
  // What is not replaced but added to is read anyway, and stays in the caches.
  explicit Streamed(std::span<T> into, bool replaces = true)
      : into_(into), is_long_(replaces && into.size_bytes() >= kStreamedBytes) {}
  Streamed(const Streamed&) = delete;
  ~Streamed() {
    if (is_long_) code_kernels().end_stream();
  }

  // write(where) writes so many of the results, those from `begin` on. REQUIRES: at most kPacked.
  template <class Write>
  void write(std::size_t begin, std::size_t count, Write write) {
    if (!is_long_) return write(into_.data() + begin);
    write(block_);
    code_kernels().stream(reinterpret_cast<const char*>(block_),
                          reinterpret_cast<char*>(into_.data() + begin), count * sizeof(T));
  }
  // All of them, in blocks that begin with a line of the cache: write(begin, count, where).
  template <class Write>
  void write_all(Write write) {
    const std::size_t before = reinterpret_cast<std::uintptr_t>(into_.data()) % 64 / sizeof(T);
    std::size_t count = is_long_ ? kPacked - before : into_.size();
    for (std::size_t begin = 0; begin < into_.size(); begin += count) {
      if (begin > 0) count = kPacked;
      count = std::min(count, into_.size() - begin);
      this->write(begin, count, [&](T* where) { write(begin, count, where); });
    }
  }

 private:
  const std::span<T> into_;
  const bool is_long_;
  alignas(64) T block_[kPacked];
};

}  // namespace lockstep
