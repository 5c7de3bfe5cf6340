// Statistics of batch norm: those of the model are the workers' mean, in which every sample counts
// once, whatever the pace.
#include <gtest/gtest.h>
#include <torch/script.h>

#include <numeric>
#include <optional>

#include "core/zero_pages.h"
#include "train/evaluate.h"
#include "train/runs.h"
#include "train/worker.h"

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
  // Two halves of the test set are added in another order than the whole: some units in the last
  // place of a float.
  EXPECT_NEAR(last_loss(config), alone, 1e-6 * alone);
}

INSTANTIATE_TEST_SUITE_P(EveryPace, Statistics,
                         ::testing::Values("all-reduce", "asp", "ad-psgd", "gossip",
                                           "epoch-average"));
// In the midst of a round, where workers have weights of their own.
INSTANTIATE_TEST_SUITE_P(InARound, Statistics,
                         ::testing::Values("local-sgd:period=100", "slow-mo:period=100",
                                           "diloco:period=100"));

// Three workers with 1, 2 and 5 samples, whichever has which. Weights never change, so that a
// worker's statistics are those of its own batches, wherever it reads them.
class UnevenStatistics : public ::testing::TestWithParam<std::string> {
 protected:
  TrainConfig config() const {
    TrainConfig config = small_config();
    config.model = network_in(folder_);
    config.data = "digits:samples=8,test_samples=10";
    config.split = "dirichlet:alpha=1";
    config.strategy = GetParam();
    config.workers = 3;
    config.batch = 2;
    config.optimizer = "sgd:lr=0";
    config.audit = GetParam() != "hogwild";  // which refuses it
    for (config.seed = 1;; ++config.seed) {
      auto samples = Experiment(config).plan.samples_by_worker();
      std::ranges::sort(samples);
      if (samples == std::vector<std::size_t>{1, 2, 5}) return config;
    }
  }

  // Of a worker that reads its samples and exchanges nothing.
  static std::vector<float> alone(const Experiment& experiment, int worker) {
    std::optional<ZeroPages> weights, gradients;
    const auto learner =
        make_torch_learner(experiment, worker,
                           [&](std::size_t count) {
                             weights.emplace(4 * count);
                             gradients.emplace(4 * count);
                             return ReplicaMemory{weights->bytes(), gradients->bytes()};
                           },
                           {});
    Plan plan = experiment.plan;
    for (std::uint64_t step = 0; step < experiment.steps; ++step)
      if (plan.samples(0, step)[worker] > 0) {
        learner->open_step(step);
        compute(*learner);
      }
    return learner->statistics();
  }

  static std::vector<double> mean(const std::vector<std::vector<float>>& of,
                                  const std::vector<double>& weights) {
    std::vector<double> mean(of[0].size());
    for (std::size_t w = 0; w < of.size(); ++w)
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += weights[w] * static_cast<double>(of[w][i]) /
                   std::accumulate(weights.begin(), weights.end(), 0.0);
    return mean;
  }

  static double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  }

  TestFolder folder_;
};

TEST_P(UnevenStatistics, CountEverySampleOnceByMass) {
  const TrainConfig config = this->config();
  const Experiment experiment(config);
  const std::vector<std::size_t> samples = experiment.plan.samples_by_worker();
  const TestFolder out;
  const RunFolder kept(out.path());
  WorkerOptions options;
  options.folder = &kept;
  // Where masses are a matter of who meets whom, one seed has the same ones every time.
  const std::string world = GetParam() == "gossip:p=1" ? "simulated" : "loopback";
  const TrainResult result = train_in(world, config, options).result;

  std::vector<std::vector<float>> of_workers;
  std::vector<double> due, by_samples, by_mass;
  for (int w = 0; w < 3; ++w) {
    of_workers.push_back(alone(experiment, w));
    const auto& rank = result.ranks[w];
    by_mass.push_back(rank["mass"].is_number() ? rank["mass"].get<double>() : 1);
    by_samples.push_back(static_cast<double>(samples[w]));
    due.push_back(by_mass[w] * by_samples[w]);
  }
  std::vector<double> found;
  const torch::jit::Module saved = torch::jit::load(kept.model());
  for (const auto& buffer : saved.named_buffers())
    for (std::int64_t i = 0; i < buffer.value.numel(); ++i)
      found.push_back(buffer.value.flatten()[i].item<double>());
  ASSERT_EQ(found.size(), of_workers[0].size());
  EXPECT_LT(distance(found, mean(of_workers, due)), 1e-6);
  // It could be told from means that leave samples or masses out.
  EXPECT_GT(distance(found, mean(of_workers, by_mass)), 1e-4);
  if (GetParam() == "gossip:p=1") {
    EXPECT_GT(distance(found, mean(of_workers, by_samples)), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Together, UnevenStatistics,
                         ::testing::Values("all-reduce", "parameter-server", "step-wise", "d-psgd",
                                           "sma", "local-sgd:period=100", "slow-mo:period=100",
                                           "diloco:period=100"));
INSTANTIATE_TEST_SUITE_P(Apart, UnevenStatistics,
                         ::testing::Values("asp", "ssp", "downpour", "easgd", "gossip:p=1",
                                           "ad-psgd", "hogwild"));
INSTANTIATE_TEST_SUITE_P(InRounds, UnevenStatistics, ::testing::Values("epoch-average"));

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
