// Example 1 of 5: trains a small network on generated digits, on two ranks that average gradients.
//
//   build/release/examples/two_ranks             two processes of this machine
//   mpirun -n 4 build/release/examples/two_ranks with LOCKSTEP_KEY_FILE: see lockstep/ranks.h
//
// Prints, after a second or two (figures may differ a little):
//   [0] epoch 1: loss 1.109, 74.0 % of 500 test digits right
//   [0] epoch 2: loss 0.480, 84.8 % of 500 test digits right
//   [0] epoch 3: loss 0.284, 84.6 % of 500 test digits right
#include <lockstep/lockstep.h>

#include <cstdio>

void train_here(lockstep::Rank& rank) {
  lockstep::TrainConfig config;  // all flags of `lockstep train`, with their defaults
  config.workers = rank.size();
  config.model = "mlp:width=64,depth=1";
  config.data = "digits:samples=2000,test_samples=500";
  config.optimizer = "sgd:lr=0.1,momentum=0.5";
  config.strategy = "all-reduce";  // or any other of `lockstep list strategies`
  config.batch = 16;
  config.epochs = 3;

  const lockstep::Experiment experiment(config);
  const lockstep::TrainResult result = lockstep::train(rank, experiment).result;
  if (rank.rank() != 0) return;
  for (std::size_t epoch = 0; epoch < result.scores.size(); ++epoch)
    std::printf("epoch %zu: loss %.3f, %.1f %% of 500 test digits right\n", epoch + 1,
                result.scores[epoch].train_loss, 100 * result.scores[epoch].accuracy);
}

int main(int argc, char** argv) { return lockstep::run_ranks(argc, argv, 2, train_here); }
