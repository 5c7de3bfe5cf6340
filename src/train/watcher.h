// Who follows a run while it goes on: the progress line, the terminal, the launcher. Called by rank
// 0 only, between steps; notice() by any rank, from its thread.
#pragma once

#include <cstdint>
#include <string>

#include "train/result.h"

namespace lockstep {

// Where a run is.
struct Progress {
  std::uint64_t step = 0, steps = 0;  // taken, in all; 0: not known yet
  int epoch = 0;                      // from 0
  double loss = 0;                    // of rank 0's last batch
  std::uint64_t samples = 0;          // by all workers, since this process started
  double training_s = 0;              // for those
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void notice(const std::string& sentence) = 0;
  // After every step: must cost next to nothing.
  virtual void step(const Progress&) = 0;
  virtual void score(const Score&, int epoch) = 0;
};

}  // namespace lockstep
