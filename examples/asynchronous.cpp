// Example 5 of 5: trains with a strategy of one's own whose workers go apart, push_pull.h, on three
// workers and a server. The audit follows every exchange and every weight: let update() also
// scale(replica.weights(), 0.9), and the run stops and says so.
//
//   build/release/examples/asynchronous
//
// Prints, after a few seconds (figures may differ a little):
//   [0] each of 3 workers took 200 steps: 87.2 % right
#include <cstdio>

#include "push_pull.h"

void train_here(lockstep::Rank& rank) {
  lockstep::TrainConfig config;
  config.strategy = "push-pull";
  config.own_strategy = &kPushPull;
  config.workers = rank.size() - 1;
  config.model = "mlp:width=32,depth=1";
  config.data = "digits:samples=2000,test_samples=500";
  config.optimizer = "sgd:lr=0.08";
  config.batch = 16;
  config.steps = 200;
  config.audit = true;

  const lockstep::TrainResult result = lockstep::train(rank, lockstep::Experiment(config)).result;
  if (rank.rank() == 0)
    std::printf("each of %d workers took %lu steps: %.1f %% right\n", config.workers, result.steps,
                100 * result.scores.back().accuracy);
}

int main(int argc, char** argv) { return lockstep::run_ranks(argc, argv, 4, train_here); }
