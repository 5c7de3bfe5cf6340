// Asynchronous parameter servers.
#include <atomic>

#include "central_cases.h"
#include "eventually.h"
#include "strategies/servers/central_messages.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;

class Asp : public ::testing::TestWithParam<World> {};

TEST_P(Asp, OneWorkerIsSgdToTheBitWithAnyNumberOfServers) {
  std::vector<ApartTraining> trainings;
  for (const int servers : {1, 3}) {
    trainings.push_back(apart("asp", 1, servers));
    trainings.back().momentum = 0.9f;
    trainings.back().gradient = rough_gradient;
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  const auto expected = alone(trainings[0]);
  for (const ApartOutcome& outcome : outcomes) {
    for (int t = 0; t < trainings[0].steps; ++t)
      EXPECT_TRUE(same_bits(outcome[0].after[t], expected[t])) << t;
    EXPECT_TRUE(same_bits(outcome[0].rested, expected.back()));
    EXPECT_TRUE(same_bits(outcome[0].model, expected.back()));
  }
}

TEST_P(Asp, EveryPushIsOneUpdateInFullAndBytesAreTheFormula) {
  ApartTraining t = apart("asp", 4, 3);
  t.gradient = whole_gradient;
  t.audit = true;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (std::size_t i = 0; i < t.count; ++i)  // no division by the number of workers
    EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  for (int w = 0; w < 4; ++w) EXPECT_TRUE(same_bits(outcome[w].rested, outcome[w].model));
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(updates_in(outcome[4 + k]), 4u * t.steps);
    EXPECT_THAT(outcome[4 + k].contributions.weight, ElementsAre(20, 20, 20, 20));
  }
  const std::uint64_t pushed = 4 * 23 * 20;
  EXPECT_THAT(bytes_sent(outcome),
              ElementsAre(pushed, pushed, pushed, pushed, 4 * 8 * 80, 4 * 8 * 80, 4 * 7 * 80));
}

// Bias corrections go by the updates of the shard, not by the steps of who pushes.
TEST_P(Asp, AServersOptimiserCountsItsOwnUpdates) {
  const auto outcome = run_apart(GetParam(), apart("asp", 3, 1));
  std::vector<std::uint64_t> counted(60);
  std::iota(counted.begin(), counted.end(), 0);
  EXPECT_EQ(outcome[3].updates, counted);
  EXPECT_EQ(outcome[3].state, "60 60 60 60");  // and goes on from there after a checkpoint
}

TEST_P(Asp, AStepWithoutSamplesIsNoUpdate) {
  ApartTraining t = apart("asp", 3, 1);
  t.samples = {4, 0, 4};
  t.momentum = 0.9f;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  EXPECT_THAT(outcome[3].contributions.weight, ElementsAre(20, 0, 20));
  EXPECT_EQ(outcome[1].exchanged.bytes_sent + outcome[1].exchanged.bytes_received, 0u);
}

TEST_P(Asp, GoesOnWithoutAWorkerThatIsGone) {
  ApartTraining t = apart("asp", 3, 2);
  t.gradient = whole_gradient;
  t.leaves = 1;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  EXPECT_EQ(updates_in(outcome[3]), 45u);
  EXPECT_EQ(outcome[2].after.size(), 20u);
}

TEST_P(Asp, InTurnEachIsStaleByTheNumberOfTheOthers) {
  ApartTraining t = apart("asp", 4, 1);
  std::atomic<int> taken = 0;  // by all
  // In simulation, where all are equally fast, they take turns by themselves.
  if (GetParam().name != "simulated") {
    t.gradient = [&](int w, int step, std::span<const float> weights, std::span<float> out) {
      ASSERT_TRUE(eventually([&] { return taken == 4 * step + w; }));
      whole_gradient(w, step, weights, out);
    };
    t.stepped = [&](int) { ++taken; };
  }
  const auto outcome = run_apart(GetParam(), t);
  // In the first round 0, 1, 2 and 3 updates had been made since the common start.
  EXPECT_THAT(outcome[4].contributions.staleness, ElementsAre(1, 1, 1, 77));
}

// Long answers go from where the weights are. A worker that does not take its own, as if it were
// stopped, holds the others up for a moment, and gets what it asked for.
TEST_P(Asp, AWorkerThatIsStoppedIsNoConcernOfOthers) {
  if (GetParam().name == "simulated") return;  // where a rank that asks is in its wait
  constexpr std::size_t kCount = 100'000;
  constexpr int kOther = 1, kServer = 2, kSteps = 5;
  std::atomic<bool> answered = false, done = false;
  const auto samples = even_samples(2);
  const auto step_at = [&](std::uint64_t n) { return Step{n, 0, samples}; };
  Floats late(kCount), model(kCount);
  GetParam().run(
      3,
      [&](Rank& rank) {
        ToyReplica replica(&rank.peers, Memory::window, kCount, 1);
        const auto asp = make_strategy("asp", {rank, 2, 1, false, all_reduce_named("ring")});
        asp->begin(replica);
        if (rank.rank() == kServer) {
          asp->parts().serving->serve(replica, step_at, 0, kSteps);
        } else if (rank.rank() == kOther) {
          ASSERT_TRUE(eventually([&] { return answered.load(); }));
          for (int t = 0; t < kSteps; ++t) {
            std::ranges::fill(replica.gradient_span(), -1.f);
            asp->update(replica, step_at(t));
          }
          done = true;
          asp->parts().apart->rest(replica);
        } else {
          Transport& peers = rank.peers;
          const auto ask = [&](CentralRequest::Wants wants, Tag word, Purpose purpose, Floats& into,
                               const std::function<bool()>& takes_it) {
            CentralRequest request{wants};
            CentralAnswer answer;
            const Values values(into.data(), kCount, Type::fp32);
            peers.wait(peers.send(kServer, kCentralRequest, bytes_of(request)));
            ASSERT_TRUE(eventually([&] { return peers.probe(kServer, word).has_value(); }));
            ASSERT_TRUE(eventually(takes_it));
            peers.wait(peers.recv(kServer, word, bytes_of(answer)));
            peers.wait(peers.recv(kServer, central_numbers(purpose, values), values.bytes()));
          };
          ask(CentralRequest::Wants::weights, kCentralAnswer, Purpose::weights, late, [&] {
            answered = true;
            return done.load();
          });
          ask(CentralRequest::Wants::rest, kCentralModel, Purpose::evaluation, model,
              [] { return true; });
        }
      },
      FabricOptions{});
  EXPECT_EQ(late, Floats(kCount, 0.f));
  EXPECT_EQ(model, Floats(kCount, static_cast<float>(kSteps)));
}

INSTANTIATE_TEST_SUITE_P(Every, Asp, ::testing::ValuesIn(strategy_worlds()), world_name);

TEST(AspInSimulation, ASlowWorkerDoesNotHoldOthersUp) {
  ApartTraining t = apart("asp", 4, 1);
  t.step_s = {0.1, 0.3, 0.1, 0.1};
  const auto outcome = run_apart(simulated_world(), t);
  for (int w = 0; w < 4; ++w) {
    EXPECT_NEAR(outcome[w].trained_s, 20 * t.step_s[w], 1e-3) << w;
    EXPECT_EQ(outcome[w].waited_s, 0);
  }
  EXPECT_NEAR(outcome[4].waited_s, 20 * 0.3, 0.05);  // the server, until somebody has computed
}

// Simulated, sizes alone: lines carry ten vectors a second, and a step computes for 50 ms.
ApartOutcome on_lines(ApartTraining t) {
  t.memory = Memory::hollow;
  t.step_s = std::vector<double>(t.workers, 0.05);
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.bandwidth_bytes_per_s = 10 * 4.0 * static_cast<double>(t.count);  // ten vectors a second
  ApartOutcome outcome(t.ranks());
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  return outcome;
}

// Long pushes come one after the other, so that the first worker has its answer while the next one
// pushes: where the line is the bottleneck a step takes as long as all pushes of a step, else no
// longer than a worker's own push and pull. The first round, in which all come at once, is paid
// once.
class AspOnALine : public ::testing::TestWithParam<int> {};
TEST_P(AspOnALine, PushesAndAnswersFillBothDirections) {
  const int workers = GetParam();
  ApartTraining t = apart("asp", workers, 1);
  t.count = 140'000;
  const ApartOutcome outcome = on_lines(t);
  const double step_s = std::max(0.05 + 2 * (0.1 + 0.1 / 8), workers * 0.1);
  for (int w = 0; w < workers; ++w)
    EXPECT_LT(outcome[w].trained_s, 1.02 * t.steps * step_s + workers * 0.1) << w;
}
INSTANTIATE_TEST_SUITE_P(Workers, AspOnALine, ::testing::Values(1, 2, 3, 5));

// Several servers have several lines, and workers push to different ones at a time.
TEST(AspInSimulation, FourServersCarryFourTimesAsMuch) {
  const int workers = 16, servers = 4;
  ApartTraining t = apart("asp", workers, servers);
  t.count = 280'000;
  const ApartOutcome outcome = on_lines(t);
  for (int w = 0; w < workers; ++w)
    EXPECT_LT(outcome[w].trained_s, 1.1 * (t.steps + 1) * workers * 0.1 / servers) << w;
}

}  // namespace
}  // namespace lockstep::testing
