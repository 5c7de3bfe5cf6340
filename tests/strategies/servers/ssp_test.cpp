// Stale synchronous parallel: what the bound allows, and what it does not.
#include <array>
#include <atomic>

#include "central_cases.h"
#include "eventually.h"

namespace lockstep::testing {
namespace {

using ::testing::SizeIs;

// Of worker 0 alone: what it sees is then its own doing.
void only_worker_0(int w, int t, std::span<const float> weights, std::span<float> out) {
  whole_gradient(w, t, weights, out);
  if (w != 0) std::ranges::fill(out, 0.0f);
}

// Whoever is fast or slow: what a run sends is no matter of chance.
void expect_one_push_and_one_answer_a_step(const ApartTraining& t, const ApartOutcome& outcome) {
  for (int w = 0; w < t.workers; ++w) {
    EXPECT_EQ(outcome[w].exchanged.bytes_sent, 4 * t.count * t.steps) << w;
    EXPECT_EQ(outcome[w].exchanged.bytes_received, 4 * t.count * t.steps) << w;
  }
}

class Ssp : public ::testing::TestWithParam<World> {};

TEST_P(Ssp, WithoutStalenessAllStepFromTheSameWeights) {
  ApartTraining t = apart("ssp:s=0", 3, 2);
  t.steps = 4;  // so few that all is exact
  t.audit = true;
  const auto outcome = run_apart(GetParam(), t);
  Floats w(t.count);
  for (std::size_t i = 0; i < t.count; ++i) w[i] = static_cast<float>(i % 7);
  for (int step = 0; step < t.steps; ++step) {
    Floats sum(t.count);
    for (int worker = 0; worker < 3; ++worker) {
      ToyReplica replica(nullptr, Memory::plain, t.count, t.rate);
      std::ranges::copy(w, replica.weight_span().begin());
      compute_gradient(t, worker, step, replica);
      for (std::size_t i = 0; i < t.count; ++i) sum[i] += replica.gradient_span()[i];
    }
    for (std::size_t i = 0; i < t.count; ++i) w[i] -= t.rate * sum[i];
    for (int worker = 0; worker < 3; ++worker)
      EXPECT_TRUE(same_bits(outcome[worker].after[step], w)) << step << " " << worker;
  }
  expect_all_got_the_model(t, outcome);
  for (int k = 3; k < 5; ++k) EXPECT_THAT(outcome[k].contributions.staleness, SizeIs(1));
}

TEST_P(Ssp, NobodyIsEverFurtherAheadThanTheBound) {
  ApartTraining t = apart("ssp:staleness=2", 3, 2);
  t.steps = 50;
  t.gradient = whole_gradient;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  for (int k = 3; k < 5; ++k) {
    EXPECT_LE(outcome[k].contributions.staleness.size(), 3u);
    EXPECT_EQ(updates_in(outcome[k]), 150u);
  }
  expect_one_push_and_one_answer_a_step(t, outcome);
}

TEST_P(Ssp, BesideASlowWorkerTheBoundIsReached) {
  ApartTraining t = apart("ssp:staleness=2", 3, 1);
  std::array<std::atomic<int>, 3> started{};
  if (GetParam().name == "simulated")
    t.step_s = {0.1, 0.3, 0.1};
  else  // the slow one takes its time until the others have started all that they may
    t.gradient = [&](int w, int step, std::span<const float> weights, std::span<float> out) {
      started[w] = step + 1;
      const int ahead = std::min(step + 2 + 1, t.steps);
      ASSERT_TRUE(w != 1 || eventually([&] { return started[0] >= ahead && started[2] >= ahead; }));
      whole_gradient(w, step, weights, out);
    };
  const auto outcome = run_apart(GetParam(), t);
  const auto& staleness = outcome[3].contributions.staleness;
  ASSERT_THAT(staleness, SizeIs(3));
  // Both others from their fourth step on, if not before.
  EXPECT_GE(staleness[2], 2u * 17);
  expect_one_push_and_one_answer_a_step(t, outcome);
}

TEST_P(Ssp, AStepWithoutSamplesChangesNothing) {
  ApartTraining t = apart("ssp:staleness=1", 3, 1);
  t.samples = {4, 0, 4};
  t.momentum = 0.9f;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  EXPECT_THAT(outcome[1].updates, ::testing::IsEmpty());
  EXPECT_THAT(outcome[0].updates, SizeIs(20));
}

TEST_P(Ssp, AWorkerReadsItsOwnUpdatesWhetherItPullsOrNot) {
  std::vector<ApartTraining> trainings;
  for (const char* spec : {"ssp:s=0", "ssp:s=1", "ssp:s=3", "ssp:s=100"}) {
    trainings.push_back(apart(spec, 3, 2));
    trainings.back().gradient = only_worker_0;
  }
  const auto expected = alone(trainings[0]);
  for (const ApartOutcome& outcome : run_apart_all(GetParam(), trainings))
    for (int t = 0; t < 20; ++t) EXPECT_TRUE(same_bits(outcome[0].after[t], expected[t])) << t;
}

TEST_P(Ssp, AWideBoundNeverBlocks) {
  ApartTraining t = apart("ssp:s=23", 3, 1);
  t.step_s = {0.1, 0.3, 0.1};
  const auto outcome = run_apart(GetParam(), t);
  for (int w = 0; w < 3; ++w) EXPECT_EQ(outcome[w].waited_s, 0);
  expect_one_push_and_one_answer_a_step(t, outcome);
}

// With answers on their way in which some of a worker's changes are, and others are not.
TEST_P(Ssp, TheAuditFollowsChangesThatAreUnderWay) {
  std::vector<ApartTraining> trainings;
  for (const char* spec : {"ssp:s=0", "ssp:s=1", "ssp:s=3", "ssp:s=100"}) {
    trainings.push_back(apart(spec, 3, 2));
    trainings.back().audit = true;
    trainings.back().step_s = {0.1, 0.13, 0.17};
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    expect_all_got_the_model(trainings[i], outcomes[i]);
}

TEST_P(Ssp, TheBoundForgetsAWorkerThatIsGone) {
  ApartTraining t = apart("ssp:s=1", 3, 2);
  t.gradient = whole_gradient;
  t.leaves = 0;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[1].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  for (const int w : {1, 2}) EXPECT_THAT(outcome[w].after, SizeIs(20));
}

INSTANTIATE_TEST_SUITE_P(Every, Ssp, ::testing::ValuesIn(strategy_worlds()), world_name);

// However far the servers are: it is waited for when the one after the next is due.
TEST(SspInSimulation, APushTravelsWhileTheNextStepIsTaken) {
  ApartTraining t = apart("ssp:s=20", 2, 1);
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.latency_s = 0.1;
  ApartOutcome outcome(t.ranks());
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (int w = 0; w < 2; ++w) {
    EXPECT_NEAR(outcome[w].trained_s, 20 * 0.1, 1e-3);
    EXPECT_NEAR(outcome[w].hidden_s, 20 * 0.1, 0.11);
    EXPECT_EQ(outcome[w].exchanged.bytes_sent, 20 * 4 * t.count);
  }
  expect_all_got_the_model(t, outcome);
}

// A way to the servers and back of two steps costs nothing where the bound allows three.
TEST(SspInSimulation, AnswersTravelWhileStepsAreTaken) {
  ApartTraining t = apart("ssp:s=3", 4, 1);
  t.audit = true;
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.latency_s = 0.1;
  ApartOutcome outcome(t.ranks());
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (int w = 0; w < 4; ++w) {
    EXPECT_NEAR(outcome[w].trained_s, 20 * 0.1, 1e-3);
    EXPECT_NEAR(outcome[w].waited_s, 0, 1e-3);
  }
  EXPECT_THAT(outcome[4].contributions.staleness, SizeIs(4));
  expect_all_got_the_model(t, outcome);
}

// Pushes and answers keep a server's line busy in both directions at once: neither waits for the
// other. Where the line is the bottleneck a step takes as long as all pushes of a step.
TEST(SspInSimulation, TheServersLineIsFullInBothDirections) {
  ApartTraining t = apart("ssp:s=3", 4, 1);
  t.count = 140'000;
  t.memory = Memory::hollow;
  t.step_s = {0.05, 0.05, 0.05, 0.05};
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.bandwidth_bytes_per_s = 10 * 4.0 * static_cast<double>(t.count);  // ten vectors a second
  ApartOutcome outcome(t.ranks());
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (int w = 0; w < 4; ++w) EXPECT_LT(outcome[w].trained_s, 1.05 * 20 * 4 * 0.1);
}

TEST(SspInSimulation, FastWorkersTakeExactlyTheTimeThatTheBoundAllows) {
  std::vector<ApartTraining> trainings;
  for (const int s : {0, 1, 3}) {
    trainings.push_back(apart(fmt::format("ssp:staleness={}", s), 3, 1));
    trainings.back().step_s = {0.1, 0.3, 0.1};
  }
  const auto outcomes = run_apart_all(simulated_world(), trainings);
  const int bounds[] = {0, 1, 3};
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    for (const int w : {0, 2}) {
      // After its last step a worker is let on when the slow one has completed all but s.
      EXPECT_NEAR(outcomes[i][w].trained_s, 0.3 * (20 - bounds[i]), 1e-3) << bounds[i];
      EXPECT_NEAR(outcomes[i][w].waited_s, outcomes[i][w].trained_s - 20 * 0.1, 1e-3);
      EXPECT_EQ(outcomes[i][1].waited_s, 0);
      const auto& staleness = outcomes[i][3].contributions.staleness;
      ASSERT_THAT(staleness, SizeIs(bounds[i] + 1));  // the bound is reached, and no more
      EXPECT_GT(staleness.back(), 0u);
    }
}

}  // namespace
}  // namespace lockstep::testing
