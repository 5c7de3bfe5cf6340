// The score of the model that a strategy defines, which need not be any worker's own.
#pragma once

#include "strategies/strategy.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"

namespace lockstep {

// Collective over the workers. Each answers its part of the test set with the strategy's model and
// the mean of the workers' statistics, and goes on as it was. Fills in accuracy, loss, accuracy by
// class and consensus distance, the same on all workers.
void evaluate(Transport& workers, Strategy&, Learner&, const Experiment&, Score&);

// Collective over the workers. Worker 0 writes that model, unless `path` is empty. Returns the
// SHA-256 of its weights, by which two runs can be seen to have ended with the same bits.
std::string save_model(Transport& workers, Strategy&, Learner&, const std::string& path);

}  // namespace lockstep
