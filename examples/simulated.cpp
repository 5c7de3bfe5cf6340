// Example 4 of 5: the strategy of pairwise.h again, unchanged, beside all-reduce, on eight
// simulated workers on a slow network: real gradients, virtual time. Every run on the same kind of
// machine prints the same figures.
//
//   build/release/examples/simulated
//
// Prints, after a second or two:
//   all-reduce   78.8 % right after 2.05 virtual seconds
//   pairwise     81.0 % right after 1.31 virtual seconds
#include <cstdio>

#include "pairwise.h"

int main() try {
  lockstep::TrainConfig config;
  config.cluster = "sim:bandwidth=100Mbps,latency=100us,step=5ms";
  config.workers = 8;
  config.model = "mlp:width=32,depth=1";
  config.data = "digits:samples=2000,test_samples=500";
  config.optimizer = "sgd:lr=0.1,momentum=0.5";
  config.collective = "ring";
  config.batch = 8;
  config.steps = 100;

  config.own_strategy = &kPairwise;

  config.strategy = "all-reduce";
  const lockstep::Experiment known(config);
  config.strategy = "pairwise";
  const lockstep::Experiment own(config);
  lockstep::run_simulated(own.simulation->cluster, [&](lockstep::Rank& rank) {
    for (const lockstep::Experiment* experiment : {&known, &own}) {
      const lockstep::TrainResult result = lockstep::train(rank, *experiment).result;
      if (rank.rank() == 0)
        std::printf("%-12s %.1f %% right after %.2f virtual seconds\n",
                    experiment->config.strategy.c_str(), 100 * result.scores.back().accuracy,
                    result.scores.back().training_s);
    }
  });
} catch (const lockstep::Error& e) {
  std::fprintf(stderr, "simulated: %s\n", e.what());
  return 1;
}
