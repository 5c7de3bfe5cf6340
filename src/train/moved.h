// What a rank has moved since the run began: by its ledger, and before it was resumed.
#pragma once

#include "measure/ledger.h"

namespace lockstep {

class Moved {
 public:
  explicit Moved(int ranks) : ledger_(ranks) {}
  Ledger& ledger() { return ledger_; }

  // By the strategy, by message or in shared memory, where there are no messages: there what a rank
  // reads from and writes to its peers' memory is what it moved.
  Traffic exchanged() const;
  // For all else: initial weights, scores, checkpoints, control.
  Traffic other() const;
  void restore(const Traffic& exchanged, const Traffic& other);

 private:
  Traffic by_strategy() const;

  Ledger ledger_;
  Traffic exchanged_before_, other_before_;
};

}  // namespace lockstep
