// The score of the model that a strategy defines, which need not be any worker's own.
#pragma once

#include "strategies/audit.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"

namespace lockstep {

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
// predicted class, and the consensus distance: the mean over those that take part (see
// Strategy::mass) of how far their `own` weights are from the model, squared; the same on all
// workers. AuditError where the run is audited and the network that answered was not the model.
void evaluate(Transport& workers, Learner&, const Experiment&, const Model&,
              std::span<const float> own, bool takes_part, Score&);

// The same by this rank alone and with the whole test set, but for the consensus distance.
// `goes_on` is asked from time to time: if it says no, returns false, and the score is not filled
// in.
bool evaluate(Examiner&, const Experiment&, const Model&, Score&,
              const std::function<bool()>& goes_on);

// What the audit of models knows numbers by.
Projection projected(std::span<const float>);

// Writes that model, unless `path` is empty; it is whole and on disk when this returns. Returns the
// SHA-256 of its weights, by which two runs can be seen to have ended with the same bits. `audit`:
// AuditError if the network that was written is not the model, or the file, read back, is not.
std::string save_model(Learner&, const Model&, const std::string& path, bool audit);

}  // namespace lockstep
