// Sleeping on a word in shared memory, between processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep {

// Sleeps while `word` still holds `expected`, at most `seconds`. May return early.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double seconds);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace lockstep
