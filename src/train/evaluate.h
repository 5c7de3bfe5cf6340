// The score of the model that a strategy defines, which need not be any worker's own.
#pragma once

#include "strategies/audit/audit.h"
#include "strategies/audit/projection.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"

namespace lockstep {

class Carrier;  // carrier.h

// REQUIRES: fp32.
inline std::span<float> floats(Values values) {
  return {reinterpret_cast<float*>(values.bytes().data), values.count()};
}

// Collective over the workers: what the strategy says it is now, and the mean of their statistics,
// by mass() times `samples`: what this worker has seen since all had the same statistics. `audit`:
// proved.
Model model_of(Transport& workers, Strategy&, Learner&, std::uint64_t samples, bool audit);
// Collective: the mean over the workers, by their weights; `audit`: proved. Where all of these are
// 0, what each has: nobody has changed it since it was common.
std::vector<float> mean_over(Transport& workers, const std::vector<float>& mine, double weight,
                             bool audit);
// Collective over the workers: AuditError unless `mean` is, on this one, the mean of what each
// calls `mine`, by their weights, of which one at least is not 0.
void prove_mean(Transport& workers, std::string_view what, std::span<const float> mine,
                double weight, std::span<const float> mean);

// Collective over the workers, which all have the same model. Each answers its part of the test set
// with it, and goes on as it was. Fills in accuracy, loss, accuracy by class, the share of the most
// predicted class, Dice and IoU where there are masks, and the consensus distance: the mean over
// those that take part (see Strategy::mass) of how far their `own` weights are from the model,
// squared; the same on all workers. `carrier`: see worker.h. AuditError where the run is audited
// and the network that answered was not the model.
void evaluate(Transport& workers, Learner&, const Experiment&, const Model&,
              std::span<const float> own, bool takes_part, Score&, Carrier* carrier = nullptr);

// The same by this rank alone and with the whole test set, but for the consensus distance.
// `goes_on` is asked from time to time: if it says no, returns false, and the score is not filled
// in.
bool evaluate(Examiner&, const Experiment&, const Model&, Score&,
              const std::function<bool()>& goes_on);

// What the audit of models knows numbers by.
Projection projected(std::span<const float>);

// What one worker that goes apart gives to a score.
struct ScoreCopy {
  // Goes ahead of the numbers, as it is.
  struct About {
    std::uint64_t steps = 0;        // of the pacemaker
    std::uint64_t run_samples = 0;  // of all workers so far, as this one counts them
    std::uint32_t is_there = 0;     // 0: there is no copy
    std::uint32_t ends_epoch = 0, has_model = 0;
    std::uint32_t left_out = 0;  // scores that this worker has left out so far
    double training_s = 0, mass = 0, bytes = 0;
    double samples = 0;  // of this worker so far: its statistics have not been common since
    // Of this worker: on the shelf since all last met, in an answer since the last score.
    double loss_sum = 0, loss_samples = 0;
    Projection weights = {}, statistics = {}, model = {};  // under the audit
  };
  About about;
  bool paces = false;  // taken by the pacemaker
  std::vector<float> weights, statistics;
  std::vector<float> model;  // where it is not the workers' mean
};

// The mean of copies that come one after the other, by what each counts for, and how far they are
// from it. All is computed from the first: x_0 + sum f_i (x_i - x_0), so that copies that are equal
// have their own mean to the bit, and no distance.
class MeanOfCopies {
 public:
  // What comes with a copy may say otherwise than the copy itself. `audit`: model() proves itself.
  MeanOfCopies(const ScoreCopy::About&, const ScoreCopy& first, bool audit);
  void add(const ScoreCopy::About&, const ScoreCopy&);
  // Once. AuditError.
  Model model();
  // The mean over the copies that take part (see Strategy::mass) of their squared distance from it.
  double distance(const std::vector<float>& model) const;

 private:
  const bool audit_;
  const std::vector<float> first_;
  std::vector<float> by_mass_, evenly_;  // sums of differences; of those that take part
  std::vector<float> model_;             // if it is not their mean
  const std::vector<float> own_statistics_;
  std::vector<double> statistics_;
  std::vector<Term> terms_, statistics_terms_;
  double mass_ = 0, weight_ = 0;
  double square_ = 0;  // of the distances from the first, of those that take part,
  int count_ = 0;      // and how many these are
};

// Writes that model, unless `path` is empty; it is whole and on disk when this returns. Returns the
// SHA-256 of its weights, by which two runs can be seen to have ended with the same bits. `audit`:
// AuditError if the network that was written is not the model, or the file, read back, is not.
std::string save_model(Learner&, const Model&, const std::string& path, bool audit);

}  // namespace lockstep
