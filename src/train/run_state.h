// What a run has come to on one rank: its log, its clock, its luck. It survives in checkpoints, so
// that a resumed run ends with the record of a whole one, and passes from one generation of members
// to the next.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/generation.h"
#include "measure/metered.h"
#include "measure/sample_curve.h"
#include "measure/step_clock.h"
#include "train/learner.h"
#include "train/recorder.h"
#include "train/timetable.h"

namespace lockstep {

class Carrier;  // carrier.h

// Losses, samples and scores so far.
class ProgressLog {
 public:
  // Of this rank's batch, or its part of that of a pipeline, whose samples another worker counts.
  void loss(double mean, std::size_t samples, bool counts = true);
  void stepped(const Step&, std::size_t own_samples, double training_s);
  Progress progress(std::uint64_t steps) const;
  std::uint64_t taken() const { return taken_; }      // steps, of this rank
  std::uint64_t samples() const { return samples_; }  // by all workers
  std::uint64_t own_samples() const { return own_samples_; }
  const SampleCurve& curve() const { return curve_; }  // this rank's, since the run's start

  // This rank's part of what a score sums over all ranks: loss since the last score, its samples,
  // bytes sent.
  std::vector<double> totals(std::uint64_t bytes_sent);
  // Losses that totals() gave out and no score has: they are part of the next score.
  void take_back(double loss_sum, double loss_samples) {
    loss_sum_ += loss_sum;
    loss_samples_ += loss_samples;
  }
  // From the sums over all ranks.
  static Score score_from(const std::vector<double>& totals, std::uint64_t taken, bool ends_epoch,
                          double training_s);
  void scored(const Score& score) { scores_.push_back(score); }
  // The last of them, also of the run that this one resumes.
  bool has_scored(std::uint64_t steps) const {
    return !scores_.empty() && scores_.back().steps == steps;
  }
  void epoch_ended(double training_s) {
    seconds_by_epoch_.push_back(training_s - std::exchange(epoch_start_s_, training_s));
  }
  void complete(TrainResult&) const;

  // What else a checkpoint keeps as text.
  struct Saved {
    std::string luck, strategy;
    Traffic exchanged, other;  // before it
    double elapsed_s = 0;      // since the run's start
    Stragglers waited = Stragglers();
    Contributions contributions;
    std::uint64_t asks_at = 0;  // see Timetable
  };
  std::string text(const StepClock&, const Saved&) const;
  // UsageError if it is no such text.
  Saved restore(const std::string& text, StepClock&);

 private:
  std::uint64_t taken_ = 0, samples_ = 0, own_samples_ = 0;
  std::uint64_t samples_before_ = 0;  // before this process
  double training_s_ = 0, training_before_s_ = 0;
  int epoch_ = 0;
  double last_loss_ = 0, loss_sum_ = 0, loss_samples_ = 0;
  SampleCurve curve_;
  std::vector<Score> scores_;
  std::vector<double> seconds_by_epoch_;
  double epoch_start_s_ = 0;
};

struct RunState {
  StepClock clock;
  Rng luck;  // draws simulated compute times
  ProgressLog log = {};
  ProgressLog::Saved before = {};  // what the run that is resumed had, beside these
};

// One rank of a run: its network, and the strategy that keeps it in step. All of it is there for
// the whole run.
struct Trainee {
  const Experiment& experiment;
  const WorkerOptions& options;
  Rank& rank;
  const Crew& crew;
  Learner& learner;
  Replica& replica;  // the learner's, which tells the clock how long its optimiser took
  Strategy& strategy;
  // The workers that its network is cut over, in order, and what passes between them; none: it has
  // the whole.
  Transport* line = nullptr;
  Carrier* carrier = nullptr;

  // Of the whole run, also of the part before it was resumed.
  Contributions contributions(const RunState&) const;
};

// Writes what a rank has come to into checkpoints, and reads it back.
class Checkpoints {
 public:
  // All outlive it.
  Checkpoints(const Trainee&, MeteredRank&, Recorder&, Timetable&);

  // Collective over all ranks. A checkpoint that can't be written is told to the watcher, and the
  // run goes on.
  void save(const Generation&, RunState&, std::uint64_t taken);
  // Reads the checkpoint that the configuration names, and begins the strategy with it. Returns how
  // many steps were taken before it. UsageError.
  std::uint64_t restore(RunState&);
  // Collective over those present, in simulation: all leave it at the same instant, to the last
  // digit, whatever came before. So what follows a checkpoint takes the same times as what follows
  // a resume from it. In the real world clocks differ anyway, and this does nothing.
  void line_up(const Generation&) const;

 private:
  void restore_progress(RunState&, const std::string& text, const std::string& path);

  const Trainee trainee_;
  MeteredRank& metered_;
  Recorder& recorder_;
  Timetable& timetable_;
};

}  // namespace lockstep
