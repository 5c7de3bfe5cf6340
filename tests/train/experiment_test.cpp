// What is worked out of a configuration before the run, and what the user is told of it.
#include "train/experiment.h"

#include <gmock/gmock.h>

#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

TrainConfig with(const std::function<void(TrainConfig&)>& change) {
  TrainConfig config = small_config();  // 400 samples, batches of 20
  change(config);
  return config;
}

TEST(Experiment, AGlobalBatchTakesAsManyStepsWithAnyNumberOfWorkers) {
  for (const std::string split : {"random", "contiguous", "dirichlet:alpha=0.3"})
    for (const std::string strategy : {"all-reduce", "asp"})
      for (const int workers : {1, 3, 7, 24}) {
        const Experiment experiment(with([&](auto& c) {
          c.workers = workers;
          c.global_batch = 64;
          c.split = split;
          c.strategy = strategy;
        }));
        EXPECT_EQ(experiment.steps, 7u) << split << " " << strategy << " " << workers;
      }
}

TEST(Experiment, LinearScalingGoesByTheSamplesOfAStep) {
  const auto scale = [](int workers, const std::string& split, const std::string& strategy) {
    return Experiment(with([&](auto& c) {
             c.lr_scaling = "linear";
             c.workers = workers;
             c.split = split;
             c.strategy = strategy;
           }))
        .lr_scale;
  };
  EXPECT_EQ(scale(1, "random", "all-reduce"), 1);
  EXPECT_EQ(scale(3, "random", "all-reduce"), 3);
  EXPECT_EQ(scale(3, "random", "gossip"), 3);
  // Most of the time some workers have run out of samples.
  EXPECT_LT(scale(4, "dirichlet:alpha=0.01", "all-reduce"), 4);
  EXPECT_EQ(Experiment(with([](auto& c) { c.workers = 3; })).lr_scale, 1);
}

TEST(Experiment, TellsOfARunThatIsTooShortToExchange) {
  const auto notices = [](const std::string& strategy, std::uint64_t steps) {
    return Experiment(with([&](auto& c) {
             c.strategy = strategy;
             c.steps = steps;
           }))
        .notices();
  };
  EXPECT_THAT(notices("diloco", 499),
              Contains(AllOf(HasSubstr("diloco exchanges every 500 steps, and this run has 499"),
                             HasSubstr("smaller period"))));
  EXPECT_THAT(notices("slow-mo:period=8", 7), Contains(HasSubstr("never exchange")));
  EXPECT_THAT(notices("local-sgd:period=9", 8), Contains(HasSubstr("never exchange")));
  EXPECT_THAT(notices("easgd:period=9", 8), Contains(HasSubstr("never exchange")));
  EXPECT_THAT(notices("downpour:push=9", 8), Contains(HasSubstr("smaller push")));
  for (const char* fine : {"diloco:period=8", "local-sgd:period=9,from_epoch=1", "all-reduce"})
    EXPECT_THAT(notices(fine, 8), Each(Not(HasSubstr("never exchange")))) << fine;
}

TEST(Experiment, ThreadsAreTheSameInBothWorlds) {
  for (const int workers : {1, 2, 3}) {
    const auto made = [&](const std::string& cluster) {
      return std::make_unique<Experiment>(with([&](auto& c) {
        c.cluster = cluster;
        c.workers = workers;
      }));
    };
    const auto real = made("local"), simulated = made("sim:step=10ms");
    for (const int cores : {1, 2, 8}) EXPECT_EQ(real->threads(cores), simulated->threads(cores));
  }
}

}  // namespace
}  // namespace lockstep::testing
