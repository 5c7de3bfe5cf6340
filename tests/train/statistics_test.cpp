// Statistics of batch norm: those of the model are the workers' mean, in which every sample counts
// once, whatever the pace.
#include <gtest/gtest.h>
#include <torch/script.h>

#include "train/evaluate.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

// A network with batch norm, as a TorchScript file.
std::string network_in(const TestFolder& folder) {
  std::filesystem::create_directories(folder.path());
  torch::manual_seed(1);
  torch::jit::Module module("Net");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("conv", 0.3 * torch::randn({3, 1, 5, 5}), false);
  module.register_parameter("scale", torch::ones(3), false);
  module.register_parameter("shift", torch::zeros(3), false);
  module.register_buffer("mean", torch::zeros(3));
  module.register_buffer("variance", torch::ones(3));
  module.register_parameter("out", 0.1 * torch::randn({10, 3 * 12 * 12}), false);
  module.define(R"(
    def forward(self, x):
      x = torch.conv2d(x, self.conv, stride=[2, 2])
      x = torch.batch_norm(x, self.scale, self.shift, self.mean, self.variance,
                           self.training, 0.1, 1e-5, False)
      return torch.relu(x).flatten(1).matmul(self.out.t())
  )");
  for (const auto& p : module.named_parameters()) p.value.set_requires_grad(true);
  const std::string path = folder.path() + "/net.pt";
  module.save(path);
  return path;
}

// The loss of the last model on the test set, which its statistics decide.
double last_loss(const TrainConfig& config) {
  return train_in("loopback", config).result.scores.back().loss;
}

// One sample: the first worker has it, and the other's statistics are as they were made.
class Statistics : public ::testing::TestWithParam<std::string> {};

TEST_P(Statistics, OfAWorkerWithoutSamplesDoNotCount) {
  const TestFolder folder;
  TrainConfig config = small_config();
  config.model = network_in(folder);
  config.data = "digits:samples=1,test_samples=50";
  config.split = "contiguous";
  config.strategy = GetParam();
  config.epochs = 5;
  config.workers = 1;
  const double alone = last_loss(config);
  config.workers = 2;
  EXPECT_NEAR(last_loss(config), alone, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(EveryPace, Statistics,
                         ::testing::Values("all-reduce", "asp", "ad-psgd", "gossip",
                                           "epoch-average"));
// In the midst of a round, where workers have weights of their own.
INSTANTIATE_TEST_SUITE_P(InARound, Statistics,
                         ::testing::Values("local-sgd:period=100", "slow-mo:period=100",
                                           "diloco:period=100"));

TEST(StatisticsMean, CountsWorkersByTheirWeights) {
  std::vector<std::vector<float>> means(3);
  run_loopback(3, [&](Rank& rank) {
    const auto r = static_cast<float>(rank.rank());
    means[rank.rank()] = mean_over(rank.peers, {r, 2 * r}, 10.0 * rank.rank(), true);
  });
  for (const auto& mean : means) {
    EXPECT_FLOAT_EQ(mean[0], (1 * 10 + 2 * 20) / 30.0f);
    EXPECT_FLOAT_EQ(mean[1], 2 * mean[0]);
  }
}

TEST(StatisticsMean, StaysWhereNobodyHasChangedIt) {
  run_loopback(2, [&](Rank& rank) {
    EXPECT_EQ(mean_over(rank.peers, {3, 4}, 0, true), (std::vector<float>{3, 4}));
  });
}

}  // namespace
}  // namespace lockstep::testing
