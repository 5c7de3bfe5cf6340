// Example 3 of 5: trains with a strategy of one's own, pairwise.h, on four ranks. The audit checks
// at every step that the strategy's weights are the mean that it claims: put 0.6 for 0.5 in
// update(), and the run stops and says so.
//
//   build/release/examples/own_strategy
//
// Prints, after a few seconds (figures may differ a little):
//   [0] after 120 steps: 85.0 % right, replicas 0.01 apart
#include <cstdio>

#include "pairwise.h"

void train_here(lockstep::Rank& rank) {
  lockstep::TrainConfig config;
  config.workers = rank.size();
  config.model = "mlp:width=32,depth=1";
  config.data = "digits:samples=2000,test_samples=500";
  config.optimizer = "sgd:lr=0.1,momentum=0.5";
  config.batch = 16;
  config.steps = 120;
  config.audit = true;
  config.strategy = "pairwise";
  config.own_strategy = &kPairwise;

  const lockstep::Experiment experiment(config);
  const lockstep::TrainResult result = lockstep::train(rank, experiment).result;
  if (rank.rank() != 0) return;
  const lockstep::Score& last = result.scores.back();
  std::printf("after %lu steps: %.1f %% right, replicas %.2f apart\n", result.steps,
              100 * last.accuracy, last.consensus_distance);
}

int main(int argc, char** argv) { return lockstep::run_ranks(argc, argv, 4, train_here); }
