// How far workers are from the model is a matter of those that take part in it.
#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

// One sample: the first worker has it, and the model is that worker's. The other keeps the weights
// that it was made with, unless it is given newer ones.
class Consensus : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryPace, Consensus,
                         ::testing::Values("asp", "ssp", "gossip:p=1", "ad-psgd", "hogwild",
                                           "local-sgd:period=100", "slow-mo:period=100",
                                           "diloco:period=100", "epoch-average"),
                         test_name);

TEST_P(Consensus, DoesNotCountWorkersWithoutSamples) {
  TrainConfig config = config_of(GetParam(), 2);
  config.data = "digits:samples=1,test_samples=10";
  config.split = "contiguous";
  config.epochs = 5;
  const auto scores = train_in("loopback", config).result.scores;
  ASSERT_EQ(scores.size(), 5u);
  for (const Score& score : scores) EXPECT_LT(score.consensus_distance, 1e-9) << score.steps;
}

// Two of three workers have a sample each.
TEST(ConsensusDistance, IsAMeanOverThoseThatTakePart) {
  TrainConfig config = config_of("local-sgd:period=100", 2);
  config.data = "digits:samples=2,test_samples=10";
  config.split = "contiguous";
  config.epochs = 3;
  const double two = train_in("loopback", config).result.scores.back().consensus_distance;
  EXPECT_GT(two, 1e-6);
  config.workers = 3;
  const double of_three = train_in("loopback", config).result.scores.back().consensus_distance;
  EXPECT_NEAR(of_three / two, 1, 1e-6);
}

}  // namespace
}  // namespace lockstep::testing
