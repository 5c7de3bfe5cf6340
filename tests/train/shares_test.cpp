// Every sample counts once where workers with different numbers of them step alone.
#include <gmock/gmock.h>

#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Whatever the optimiser makes of the scale of a gradient.
class Shares : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryOptimiser, Shares,
                         ::testing::Values("sgd:lr=0.5", "adam:lr=0.05", "adamw:lr=0.05",
                                           "adagrad:lr=0.05", "lars:lr=1,eta=0.1"),
                         test_name);

// One worker has two samples and the other one. From a common start the mean of the workers after a
// step of each is what local SGD averages, which counts weights by samples. (The centre of sma
// moves there a step later.)
TEST_P(Shares, OfWorkersThatMixAreThoseOfLocalSgd) {
  TrainConfig config = small_config();
  config.data = "digits:samples=3,test_samples=50";
  config.split = "contiguous";
  config.optimizer = GetParam();
  config.audit = true;
  const auto loss_of = [&](const std::string& strategy, std::uint64_t steps) {
    config.strategy = strategy;
    config.steps = steps;
    return train_in("loopback", config).result.scores.back().loss;
  };
  const double due = loss_of("local-sgd:period=1", 1);
  EXPECT_NEAR(loss_of("d-psgd:graph=complete", 1), due, 1e-5);
  EXPECT_NEAR(loss_of("sma:momentum=0", 2), due, 1e-5);
}

TrainConfig uneven_config(const std::string& strategy) {
  TrainConfig config = config_of(strategy, 4);
  config.data = "digits:samples=40,test_samples=50";
  config.split = "dirichlet:alpha=0.3";
  config.global_batch = 40;
  config.epochs = 0;
  config.steps = 1;
  return config;
}

// All samples in one step, by shards of any size. The model moves by the sum of four steps from one
// start, which is four times one step with all samples.
class SharesApart : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Added, SharesApart,
                         ::testing::Values("asp", "downpour", "ssp:staleness=0", "hogwild"),
                         test_name);

TEST_P(SharesApart, EverySampleOfAGlobalBatchCountsOnce) {
  TrainConfig config = uneven_config(GetParam());
  config.audit = GetParam() != "hogwild";  // which refuses it
  const auto samples = Experiment(config).plan.samples_by_worker();
  ASSERT_GT(std::ranges::max(samples), 2 * std::ranges::min(samples));
  config.optimizer = "sgd:lr=0.05";
  const double found = train_in("loopback", config).result.scores.back().loss;
  config.strategy = "all-reduce";
  config.optimizer = "sgd:lr=0.2";
  EXPECT_NEAR(found, train_in("loopback", config).result.scores.back().loss, 1e-5);
}

// Their optimisers are at the servers, where only gradients come.
TEST(SharesAtServers, AreToldToBeMissedByOptimisersThatDoNotSeeThem) {
  const auto notices = [](const std::string& strategy, const std::string& optimiser) {
    TrainConfig config = uneven_config(strategy);
    config.optimizer = optimiser;
    return Experiment(config).notices();
  };
  const auto told = HasSubstr("every worker's step counts alike");
  EXPECT_THAT(notices("asp", "adam"), Contains(told));
  EXPECT_THAT(notices("downpour", "adagrad"), Contains(told));
  EXPECT_THAT(notices("asp", "sgd"), Each(Not(told)));
  EXPECT_THAT(notices("ssp", "adam"), Each(Not(told)));
}

}  // namespace
}  // namespace lockstep::testing
