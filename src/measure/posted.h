// A value that one thread posts and others look at, without ever making it wait (a sequence lock):
// posting costs a few plain stores.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lockstep {

template <class T>
class Posted {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);

 public:
  // By one thread only.
  void post(const T& value) {
    Words words;
    std::memcpy(words.data(), &value, sizeof value);
    const std::uint64_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i)
      words_[i].store(words[i], std::memory_order_relaxed);
    turn_.store(turn + 2, std::memory_order_release);
  }

  // The latest value into `value`, whole. False, and nothing is changed, if it was being replaced
  // meanwhile: who wrote may have lost its core, so look again later.
  bool look(T& value) const {
    Words words;
    const std::uint64_t before = turn_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = words_[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 != 0 || turn_.load(std::memory_order_relaxed) != before) return false;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return true;
  }

 private:
  using Words = std::array<std::uint64_t, sizeof(T) / sizeof(std::uint64_t)>;
  std::atomic<std::uint64_t> turn_{0};  // odd: being written
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>> words_{};
};

}  // namespace lockstep
