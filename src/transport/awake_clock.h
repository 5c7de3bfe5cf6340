// Time as it passes for one that looks often. While its process stands still (Ctrl-Z, SIGSTOP, a
// frozen control group) hardly any time passes here: whoever measures its patience by this clock
// blames no peer for what it slept through itself.
#pragma once

#include <algorithm>

#include "transport/real_rank.h"

namespace lockstep {

// Belongs to one thread.
class AwakeClock {
 public:
  // Look at least so often.
  static constexpr double kLookSeconds = 0.5;
  // So much counts between two looks at most: more than a busy machine keeps a thread waiting.
  static constexpr double kMostSeconds = 1;

  explicit AwakeClock(double wall = wall_now()) : looked_at_(wall) {}

  // Seconds since this was made.
  double now(double wall = wall_now()) {
    passed_ += std::min(wall - looked_at_, kMostSeconds);
    looked_at_ = wall;
    return passed_;
  }

 private:
  double looked_at_, passed_ = 0;
};

// What is left of the time that somebody has.
class Countdown {
 public:
  explicit Countdown(double seconds) : seconds_(seconds) {}

  // Zero or less: the time is over.
  double left() { return seconds_ - clock_.now(); }
  // The same, but no more than may pass before the next look.
  double nap(double most = AwakeClock::kLookSeconds) {
    return std::clamp(left(), 0.0, std::min(most, AwakeClock::kLookSeconds));
  }

 private:
  double seconds_;
  AwakeClock clock_;
};

}  // namespace lockstep
