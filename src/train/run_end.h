// When a run is over. Where it ends by steps every rank knows beforehand. Where it ends by time, or
// by samples of workers that go apart, they find out as they go:
//
//   in step, by seconds   rank 0's training time decides for all. It says up to which step nobody
//                         needs to ask again: half way to where the steps so far say that the end
//                         will be. So it is asked about log2(steps) times, and the run ends with
//                         the first step after which rank 0 has trained for that long, unless steps
//                         have become more than twice as long as they were.
//   apart, by seconds     each worker by its own training time.
//   apart, by samples     each worker takes steps while the samples of all, as far as it has heard,
//                         are fewer. It tells the others its own count whenever the part they have
//                         not heard of could be 1/(2 workers) of what is left: about log2(steps)
//                         times, and towards the end after each step. Steps under way are finished,
//                         so a run may have a batch of each worker more, and what was on the wire.
#pragma once

#include <cstdint>
#include <vector>

#include "train/announcement.h"
#include "train/experiment.h"
#include "train/step_clock.h"
#include "transport/rank.h"

namespace lockstep {

class RunEnd {
 public:
  // All outlive it. `apart`: workers keep no common pace.
  RunEnd(Rank&, const Experiment&, StepClock&, bool apart);
  RunEnd(const RunEnd&) = delete;

  // Is the run over before this step? Collective over all ranks where they go together; else on
  // workers, and of this one.
  bool is_over(std::uint64_t step);
  // Apart, after each step: this worker's samples so far.
  void took(std::uint64_t own_samples);
  // Apart. Collective over the workers, who have met and are about to go on.
  void met(Transport& workers, std::uint64_t own_samples);
  // For resuming: the step before which ranks that go together ask next.
  std::uint64_t asks_at() const { return asks_at_; }
  void restore(std::uint64_t asks_at) { asks_at_ = asks_at; }

 private:
  bool ends_by_samples() const { return apart_ && experiment_.config.samples > 0; }
  std::uint64_t known() const;
  // The next step before which to ask; `step` itself: it is over.
  std::int64_t next_question(std::uint64_t step) const;
  void ask(std::uint64_t step);
  void hear();

  Rank& rank_;
  const Experiment& experiment_;
  StepClock& clock_;
  const bool apart_;
  std::uint64_t asks_at_ = 0;
  // Of samples: by worker, as far as known; what the others were told last.
  std::vector<std::uint64_t> heard_;
  std::uint64_t told_ = 0;
  Announcement counts_;
};

}  // namespace lockstep
