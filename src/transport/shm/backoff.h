// How a rank waits in shared memory: spin while the answer is likely near, then let others run,
// then sleep. With more ranks than cores the one waited for may need this core, so spinning is cut
// short.
#pragma once

#include <immintrin.h>
#include <sched.h>

namespace lockstep {

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

}  // namespace lockstep
