// What a rank has moved since the run began: by its ledger, and before it was resumed.
#pragma once

#include "measure/metered_background.h"

namespace lockstep {

class Moved {
 public:
  explicit Moved(int ranks) : ledger_(ranks) {}
  Ledger& ledger() { return ledger_; }
  // What its jobs move counts too. Outlives this.
  void add(const MeteredBackground& jobs) { jobs_.push_back(&jobs); }

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
  std::vector<const MeteredBackground*> jobs_;
  Traffic exchanged_before_, other_before_;
};

}  // namespace lockstep
