// The score of the model that a strategy defines, which need not be any worker's own.
#pragma once

#include "strategies/strategy.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"

namespace lockstep {

// REQUIRES: fp32.
inline std::span<float> floats(Values values) {
  return {reinterpret_cast<float*>(values.bytes().data), values.count()};
}

// A network as it can be evaluated.
struct Model {
  std::vector<float> weights;
  std::vector<float> statistics;  // of batch norm and its like
};

// Collective over the workers: what the strategy says it is now, and the mean of their statistics.
Model model_of(Transport& workers, Strategy&, Learner&);
// Collective: the mean over the workers, by their masses.
std::vector<float> mean_over(Transport& workers, const std::vector<float>& mine, double mass);

// Collective over the workers, which all have the same model. Each answers its part of the test set
// with it, and goes on as it was. Fills in accuracy, loss, accuracy by class, the share of the most
// predicted class, and the consensus distance of `own` weights; the same on all workers.
void evaluate(Transport& workers, Learner&, const Experiment&, const Model&,
              std::span<const float> own, Score&);

// Writes that model, unless `path` is empty. Returns the SHA-256 of its weights, by which two runs
// can be seen to have ended with the same bits.
std::string save_model(Learner&, const Model&, const std::string& path);

}  // namespace lockstep
