// Between "I publish, then look whether you sleep" and "I say that I sleep, then look whether you
// published" both sides need a full fence, or a wake-up can be lost. Publishing happens in every
// message and every meeting, sleeping seldom, so the sleeper pays for both: its fence makes every
// core fence (membarrier). Where the kernel can't, the publisher's fence is a real one.
#pragma once

#include <atomic>

namespace lockstep {

// Does the kernel do it for this process? Registers it the first time it is asked.
bool sleeper_pays();

inline void publisher_fence(bool sleeper_pays) {
  if (sleeper_pays)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
void sleeper_fence();

}  // namespace lockstep
