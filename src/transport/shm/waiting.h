// How a rank waits for another in shared memory: it spins while the answer is likely near, then
// lets others run, then sleeps on a word in that memory.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace lockstep {

// When to sleep. With more ranks than cores the one waited for may need this core, so spinning is
// cut short.
class Backoff {
 public:
  // `crowded`: more ranks on this host than cores.
  explicit Backoff(bool crowded)
      : spins_(crowded ? kCrowdedSpins : kSpins), yields_(crowded ? kCrowdedYields : kYields) {}

  // Call when there was nothing to do. True: now is the time to sleep.
  bool pause() {
    if (turns_ < spins_) {
      ++turns_;
      _mm_pause();
      return false;
    }
    if (turns_ < spins_ + yields_) {
      ++turns_;
      sched_yield();
      return false;
    }
    return true;
  }
  // Call when there was something to do.
  void reset() { turns_ = 0; }

 private:
  // Some 10 us and 100 us when nobody else wants the core. Not more spinning: the one waited for
  // may stand behind us on this very core, whatever the count of ranks says.
  static constexpr int kSpins = 300, kYields = 300;
  static constexpr int kCrowdedSpins = 50, kCrowdedYields = 50;
  const int spins_, yields_;
  int turns_ = 0;
};

// Sleeps while `word` still holds `expected`, at most `seconds`. May return early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double seconds);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

// Between "I publish, then look whether you sleep" and "I say that I sleep, then look whether you
// published" both sides need a full fence, or a wake-up can be lost. Publishing happens in every
// message and every meeting, sleeping seldom, so the sleeper pays for both: its fence makes every
// core fence (membarrier). Where the kernel can't, the publisher's fence is a real one.
void sleeper_fence();
inline void publisher_fence(bool sleeper_pays) {
  if (sleeper_pays)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
// Does the kernel do it for this process? Registers it the first time it is asked.
bool sleeper_pays();

}  // namespace lockstep
