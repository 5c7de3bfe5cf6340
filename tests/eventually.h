// Waiting for what others do, with an end.
#pragma once

#include <unistd.h>

#include <functional>

#include "transport/real_rank.h"

namespace lockstep {

// Looks until it is so, at most `seconds`: many more than it takes, for machines are busy.
inline bool eventually(const std::function<bool()>& so, double seconds = 60) {
  const double deadline = wall_now() + seconds;
  while (!so()) {
    if (wall_now() > deadline) return false;
    usleep(2000);
  }
  return true;
}

}  // namespace lockstep
