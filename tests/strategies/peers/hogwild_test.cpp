// Hogwild: no update is lost unless it may be.
#include "strategies/servers/central_cases.h"
#include "transport/decorators/shaped.h"
#include "transport/rank_view.h"

namespace lockstep::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ApartTraining hogwild(const std::string& updates, int workers) {
  ApartTraining t = apart("hogwild:updates=" + updates, workers, 0);
  t.count = 1000;
  t.gradient = whole_gradient;
  return t;
}

class Hogwild : public ::testing::TestWithParam<World> {};

TEST_P(Hogwild, OneWorkerIsSgdToTheBit) {
  std::vector<ApartTraining> trainings{hogwild("atomic", 1), hogwild("plain", 1)};
  for (ApartTraining& t : trainings) {
    t.momentum = 0.9f;
    t.gradient = rough_gradient;
  }
  const auto expected = alone(trainings[0]);
  for (const ApartOutcome& outcome : run_apart_all(GetParam(), trainings)) {
    for (int t = 0; t < trainings[0].steps; ++t)
      EXPECT_TRUE(same_bits(outcome[0].after[t], expected[t])) << t;
    EXPECT_TRUE(same_bits(outcome[0].model, expected.back()));
  }
}

TEST_P(Hogwild, NoAtomicUpdateIsLostAndNothingIsSent) {
  ApartTraining t = hogwild("atomic", 4);
  t.steps = 100;
  const auto outcome = run_apart(GetParam(), t);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  for (int w = 0; w < 4; ++w) {
    EXPECT_TRUE(same_bits(outcome[w].model, outcome[0].model)) << w;
    EXPECT_TRUE(same_bits(outcome[w].rested, outcome[0].model)) << w;
    EXPECT_EQ(updates_in(outcome[w]), 100u);
  }
  EXPECT_THAT(bytes_sent(outcome), Each(0));
}

TEST_P(Hogwild, AStepWithoutSamplesIsNoUpdate) {
  ApartTraining t = hogwild("atomic", 3);
  t.samples = {4, 0, 4};
  t.momentum = 0.9f;
  const auto outcome = run_apart(GetParam(), t);
  EXPECT_EQ(updates_in(outcome[0]), 20u);
  EXPECT_EQ(updates_in(outcome[1]), 0u);
  EXPECT_TRUE(same_bits(outcome[1].rested, outcome[0].model));
}

TEST_P(Hogwild, PlainUpdatesAreAtMostAllThatWereMade) {
  ApartTraining t = hogwild("plain", 4);
  t.steps = 100;
  t.gradient = [](int, int, auto, auto out) { std::ranges::fill(out, -4.0f); };
  const auto outcome = run_apart(GetParam(), t);
  for (std::size_t i = 0; i < t.count; ++i) {
    // A load and a store between two of one's own take all of the others' back, at worst.
    EXPECT_GE(outcome[0].model[i], static_cast<float>(i % 7) + 1);
    EXPECT_LE(outcome[0].model[i], static_cast<float>(i % 7) + 400);
    if (GetParam().name == "simulated") {
      EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) + 400);
    }
  }
}

TEST_P(Hogwild, GoesOnWithoutAWorkerThatIsGone) {
  ApartTraining t = hogwild("atomic", 3);
  t.leaves = 1;
  const auto outcome = run_apart(GetParam(), t);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[2].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
}

// As with --transport ucx on one host, or --shape: windows that reach nobody.
TEST(HogwildMemory, IsRefusedWhereThereIsNone) {
  const auto body = [](Rank& outer) {
    Shaped shaped(outer.peers, std::vector<Link>(outer.size()), {});
    RankView view(outer, {.peers = &shaped});
    const Crew crew{view.rank(), outer.size(), 0, false, all_reduce_named("ring")};
    ToyReplica replica(nullptr, Memory::plain, 10, 0.5f);
    try {
      make_strategy("hogwild", crew)->begin(replica);
      ADD_FAILURE() << "it has found memory";
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr("without --shape and --transport ucx"));
    }
  };
  run_loopback(2, body);
}

INSTANTIATE_TEST_SUITE_P(Every, Hogwild, ::testing::ValuesIn(strategy_worlds()), world_name);

TEST(HogwildOnHosts, OneMemoryIsOfOneHost) {
  FabricOptions options;
  options.ranks_per_host = 2;
  const auto begin = [](Rank& rank) { train_apart(hogwild("atomic", 3), rank); };
  try {
    run_loopback(3, begin, options);
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("worker 2 is on another host"));
  }
}

TEST(HogwildInSimulation, OneSeedGivesTheSameBitsTwice) {
  ApartTraining t = hogwild("plain", 3);
  t.gradient = rough_gradient;
  t.momentum = 0.9f;
  // No two workers are ever done at the same time: the second training starts at another time of
  // the same clock, where a tie may be rounded to another order.
  t.step_s = {0.1, 0.1371, 0.1713};
  const auto outcomes = run_apart_all(simulated_world(), {t, t});
  expect_same_bits(outcomes[0], outcomes[1]);
}

TEST(HogwildInSimulation, SizesAloneTakeTheSameTimeAndSendNothing) {
  ApartTraining t = hogwild("atomic", 3), hollow = t;
  hollow.memory = Memory::hollow;
  const auto outcomes = run_apart_all(simulated_world(), {t, hollow});
  EXPECT_THAT(bytes_sent(outcomes[1]), Each(0));
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(updates_in(outcomes[1][w]), 20u);
    EXPECT_NEAR(outcomes[0][w].trained_s, outcomes[1][w].trained_s, 1e-9);
  }
}

TEST(HogwildInSimulation, StalenessCountsTheUpdatesOfOthers) {
  const auto outcome = run_apart(simulated_world(), hogwild("atomic", 3));
  for (int w = 0; w < 3; ++w)
    EXPECT_EQ(outcome[w].contributions.staleness.back(), w == 2 ? 20u : 19u) << w;
}

}  // namespace
}  // namespace lockstep::testing
