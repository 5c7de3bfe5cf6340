// What a rank has moved since the run began: by its ledger, and before it was resumed.
#pragma once

#include "measure/metered_background.h"

namespace lockstep {

class Moved {
 public:
  explicit Moved(int ranks) : ledger_(ranks) {}
  Ledger& ledger() { return ledger_; }
  // What its background jobs move counts too. Outlives this.
  void add(const MeteredBackground& background) { background_ = &background; }

  // By the strategy, by message or in shared memory, where there are no messages: there what a rank
  // reads from and writes to its peers' memory is what it moved.
  Traffic exchanged() const;
  // For all else: initial weights, scores, checkpoints, control.
  Traffic other() const;
  void restore(const Traffic& exchanged, const Traffic& other);

 private:
  Ledger all() const;
  static Traffic by_strategy(const Ledger&);

  Ledger ledger_;
  const MeteredBackground* background_ = nullptr;
  Traffic exchanged_before_, other_before_;
};

}  // namespace lockstep
