// What a rank remembers of the run so far: losses, samples, scores. Survives in checkpoints, so
// that a resumed run ends with the record of a whole one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/strategy.h"
#include "train/result.h"
#include "train/sample_curve.h"
#include "train/step_clock.h"
#include "train/waited_for.h"
#include "train/watcher.h"

namespace lockstep {

class ProgressLog {
 public:
  void loss(double mean, std::size_t samples);  // of this rank's batch
  void stepped(const Step&, std::size_t own_samples, double training_s);
  Progress progress(std::uint64_t steps) const;
  std::uint64_t taken() const { return taken_; }      // steps, of this rank
  std::uint64_t samples() const { return samples_; }  // by all workers
  std::uint64_t own_samples() const { return own_samples_; }
  const SampleCurve& curve() const { return curve_; }  // this rank's, since the run's start

  // This rank's part of what a score sums over all ranks: loss since the last score, its samples,
  // bytes sent.
  std::vector<double> totals(std::uint64_t bytes_sent);
  // What totals() gave out of losses and no score has: it is part of the next.
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
  void epoch_ended(double training_s);
  void complete(TrainResult&) const;

  // What else a checkpoint keeps as text.
  struct Saved {
    std::string luck, strategy;
    Traffic exchanged, other;  // before it
    double elapsed_s = 0;      // since the run's start
    WaitedFor waited;
    Contributions contributions;
    std::uint64_t asks_at = 0;  // see RunEnd
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

}  // namespace lockstep
