#include "transport/shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace lockstep {

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double seconds) {
  if (seconds <= 0) return;
  const timespec timeout{static_cast<time_t>(seconds),
                         static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep
