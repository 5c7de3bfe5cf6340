// A rank all of whose lanes are counted: its own, those of its background and that of its scores.
// Sums are of the whole run, also of what a resumed run had moved before.
#pragma once

#include <vector>

#include "measure/metered_background.h"

namespace lockstep {

class MeteredRank {
 public:
  // `rank` outlives this, and this all that is made with rank().
  explicit MeteredRank(Rank& rank);
  MeteredRank(const MeteredRank&) = delete;

  Rank& rank() { return view_.rank(); }
  // Moved by the strategy: gradients and weights, by message or in shared memory. Where there were
  // no messages, a rank moved what it read from and wrote to its peers' memory.
  Traffic exchanged() const;
  // Moved for all else: initial weights, scores, checkpoints, control.
  Traffic other() const;
  // What the run that this one resumes had moved.
  void restore(const Traffic& exchanged, const Traffic& other);

 private:
  Ledger all() const;

  Ledger ledger_;
  Metered metered_;
  std::vector<const MeteredBackground*> lanes_;  // of view_
  RankView view_;
  Traffic exchanged_before_, other_before_;
};

}  // namespace lockstep
