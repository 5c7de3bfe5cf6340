// When things happen in a run: its end, scores, checkpoints, and a stop before the end.
//
// Where a run ends by steps every rank knows the end beforehand. Where it ends by time, or by
// samples of workers that go apart, the ranks find out as they go:
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
#include <optional>
#include <vector>

#include "collectives/announcement.h"
#include "measure/step_clock.h"
#include "train/experiment.h"
#include "train/trainer.h"

namespace lockstep {

class Timetable {
 public:
  // All outlive it.
  Timetable(Rank&, const Experiment&, const WorkerOptions&, Plan&, StepClock&);
  Timetable(const Timetable&) = delete;

  // The end.
  //
  // Is the run over before this step? Collective over all ranks where they go together; else on
  // workers, and of this one.
  bool is_over(std::uint64_t step);
  // Where workers go apart, after each step: this worker's samples so far.
  void took(std::uint64_t own_samples);
  // Where they go apart. Collective over the workers, which have met and are about to go on.
  void met(Transport& workers, std::uint64_t own_samples);
  // The run's last step is known: of each worker, or of the pacemaker where workers ended apart.
  void end_at(std::uint64_t step) { last_step_ = step; }
  std::uint64_t last_step() const { return last_step_; }  // kOpenEnd: not known yet
  // For resuming: the step before which ranks that go together ask next.
  std::uint64_t asks_at() const { return asks_at_; }
  void restore(std::uint64_t asks_at) { asks_at_ = asks_at; }

  // Scores and checkpoints, after so many steps.
  bool ends_epoch(std::uint64_t taken);
  bool score_due(std::uint64_t taken);
  bool checkpoint_due(std::uint64_t taken) const;
  // Up to which step ranks go apart before they meet: `first` itself if a resumed run has had all.
  std::uint64_t next_meeting(std::uint64_t first) const;

  // A stop before the end. Without checkpoints each of these throws Stopped as soon as this rank is
  // told to stop.
  void check_stopped() const;
  // Collective where ranks keep in step, before the step that follows `taken`: is any told to stop?
  // Then all write a checkpoint and stop here.
  bool stops_here(std::uint64_t taken);
  // Where ranks go apart, before each step: is this rank to rest, so that all can write a
  // checkpoint and stop?
  bool is_to_rest() const;
  // Collective over those present, when all rest: if any is told to stop, the step up to which all
  // of them go on, the furthest that a worker has come.
  std::optional<std::uint64_t> stops_at(Transport& present, std::uint64_t taken) const;

 private:
  bool ends_by_samples() const { return apart_ && experiment_.config.samples > 0; }
  std::uint64_t known() const;
  // The next step before which to ask; `step` itself: it is over.
  std::int64_t next_question(std::uint64_t step) const;
  void ask(std::uint64_t step);
  bool stops_with_checkpoint() const;

  Rank& rank_;
  const Experiment& experiment_;
  const WorkerOptions& options_;
  StepClock& clock_;
  Plan& plan_;
  const bool apart_;  // workers keep no common pace
  std::uint64_t last_step_;
  std::uint64_t asks_at_ = 0;
  // Of samples: by worker, as far as known; what the others were told last.
  std::vector<std::uint64_t> heard_;
  std::uint64_t told_ = 0;
  Announcement counts_;
  // When ranks last asked each other whether to stop, and after how many steps they ask again.
  struct Vote {
    std::uint64_t taken = 0, next = 0;
    double at_s = 0;
  } vote_;
};

}  // namespace lockstep
