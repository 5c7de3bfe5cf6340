// Downpour: nothing that was computed is lost, and fetches cost no time.
#include <future>

#include "central_cases.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class Downpour : public ::testing::TestWithParam<World> {};

TEST_P(Downpour, OneWorkerThatPushesAndFetchesInEveryStepIsSgdToTheBit) {
  std::vector<ApartTraining> trainings;
  for (const int servers : {1, 3}) {
    trainings.push_back(apart("downpour", 1, servers));
    trainings.back().momentum = 0.9f;
    trainings.back().gradient = rough_gradient;
    trainings.back().audit = true;
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  const auto expected = alone(trainings[0]);
  for (const ApartOutcome& outcome : outcomes) {
    for (int t = 0; t < trainings[0].steps; ++t)
      EXPECT_TRUE(same_bits(outcome[0].after[t], expected[t])) << t;
    EXPECT_TRUE(same_bits(outcome[0].rested, expected.back()));
    EXPECT_TRUE(same_bits(outcome[0].model, expected.back()));
    EXPECT_THAT(outcome[1].contributions.staleness, ElementsAre(20));
  }
}

TEST_P(Downpour, WithoutSamplesThereIsNothingToPush) {
  ApartTraining t = apart("downpour:push=2", 2, 1);
  t.samples = {4, 0};
  t.momentum = 0.9f;
  const auto outcome = run_apart(GetParam(), t);
  EXPECT_THAT(outcome[2].contributions.weight, ElementsAre(10));
  EXPECT_EQ(outcome[1].exchanged.bytes_sent + outcome[1].exchanged.bytes_received, 0u);
}

// It has samples in the steps between, so that what it knows grows old.
TEST_P(Downpour, WhoIsIdleWhenAFetchIsDueFetchesAllTheSame) {
  ApartTraining t = apart("downpour:push=1,fetch=2", 2, 1);
  t.idle = [](int w, std::uint64_t step) { return w == 1 && step % 2 == 1; };
  t.audit = true;
  const auto outcome = run_apart(GetParam(), t);
  EXPECT_THAT(outcome[2].contributions.weight, ElementsAre(20, 10));
  EXPECT_EQ(outcome[1].exchanged.bytes_sent, 10 * 4 * t.count);
  EXPECT_EQ(outcome[1].exchanged.bytes_received, 10 * 4 * t.count);
}

// With plain SGD at the servers what they have come to tells what was pushed.
TEST_P(Downpour, WhatIsPushedAndWhatIsNotYetIsAllThatWasComputed) {
  ApartTraining t = apart("downpour:push=3,fetch=2", 3, 2);
  t.gradient = whole_gradient;
  std::vector<Floats> accumulated(3);
  Floats model(t.count);
  GetParam().run(
      t.ranks(),
      [&](Rank& rank) {
        const Crew crew{rank, 3, 2, false, all_reduce_named("ring")};
        const auto strategy = t.make(crew);
        ToyReplica replica(nullptr, Memory::plain, t.count, t.rate);
        strategy->begin(replica);
        const auto samples = even_samples(3);
        const auto step_at = [&](std::uint64_t n) { return Step{n, 0, samples}; };
        if (!crew.works()) return strategy->parts().serving->serve(replica, step_at, 0, t.steps);
        for (int n = 0; n < t.steps; ++n) {
          compute_gradient(t, rank.rank(), n, replica);
          strategy->update(replica, step_at(n));
        }
        strategy->parts().apart->rest(replica);
        if (rank.rank() == 0)
          strategy->parts().apart->fetch_model({model.data(), t.count, Type::fp32});
        const Values kept = strategy->memories().at(0).values;
        const auto* const first = reinterpret_cast<const float*>(kept.bytes().data);
        accumulated[rank.rank()].assign(first, first + t.count);
      },
      FabricOptions{});
  for (std::size_t i = 0; i < t.count; ++i) {
    float sum = -model[i] / t.rate;
    for (const Floats& rest : accumulated) sum += rest[i];
    EXPECT_EQ(sum, whole_sum(t, i)) << i;
    Floats last(t.count), last_but_one(t.count);
    whole_gradient(0, 18, {}, last_but_one);
    whole_gradient(0, 19, {}, last);
    EXPECT_EQ(accumulated[0][i], last_but_one[i] + last[i]) << i;
  }
}

// Also what ends no sum of gradients, and also where only the first of them was computed.
TEST_P(Downpour, WhenTheRunIsOverAllThatWasComputedIsInTheModel) {
  std::vector<ApartTraining> trainings;
  for (const char* spec : {"downpour:push=3,fetch=2", "downpour:push=50", "downpour:push=19"}) {
    trainings.push_back(apart(spec, 3, 2));
    trainings.back().gradient = whole_gradient;
    trainings.back().audit = true;
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  for (std::size_t k = 0; k < outcomes.size(); ++k)
    for (std::size_t i = 0; i < trainings[k].count; ++i)
      EXPECT_EQ(outcomes[k][0].model[i],
                static_cast<float>(i % 7) - trainings[k].rate * whole_sum(trainings[k], i))
          << k << " " << i;
}

// It goes on from its own weights, so what others had pushed by then is as unseen as before.
TEST_P(Downpour, ARestIsNoRead) {
  Contributions contributions;
  GetParam().run(
      3,
      [&](Rank& rank) {
        const Crew crew{rank, 2, 1, false, all_reduce_named("ring")};
        const auto strategy = make_strategy("downpour:push=1,fetch=100", crew);
        ToyReplica replica(nullptr, Memory::plain, 23, 0.25f);
        strategy->begin(replica);
        const auto samples = even_samples(2);
        const auto step_at = [&](std::uint64_t n) { return Step{n, 0, samples}; };
        for (const std::uint64_t first : {0, 5}) {
          if (!crew.works()) {
            strategy->parts().serving->serve(replica, step_at, first, first + 5);
            continue;
          }
          for (std::uint64_t n = first; n < first + 5; ++n) strategy->update(replica, step_at(n));
          strategy->parts().apart->rest(replica);
        }
        if (!crew.works()) contributions = figures_of(*strategy).contributions;
      },
      FabricOptions{});
  EXPECT_EQ(contributions.staleness, std::vector<std::uint64_t>(20, 1));  // 0 to 19, once each
}

TEST_P(Downpour, BytesAreTheFormula) {
  ApartTraining t = apart("downpour:push=3,fetch=2", 2, 1);
  const auto outcome = run_apart(GetParam(), t);
  // Of 20 steps the last two end no sum of three, and are pushed when the run is over.
  EXPECT_THAT(bytes_sent(outcome), ElementsAre(4 * 23 * 7, 4 * 23 * 7, 4 * 23 * 20));
  EXPECT_EQ(updates_in(outcome[2]), 14u);
  expect_all_got_the_model(t, outcome);
}

TEST_P(Downpour, GoesOnWithoutAWorkerThatIsGone) {
  ApartTraining t = apart("downpour", 3, 2);
  t.gradient = whole_gradient;
  t.leaves = 1;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[0].model[i], static_cast<float>(i % 7) - t.rate * whole_sum(t, i)) << i;
  for (const int w : {0, 2}) EXPECT_THAT(outcome[w].after, SizeIs(20));
}

INSTANTIATE_TEST_SUITE_P(Every, Downpour, ::testing::ValuesIn(strategy_worlds()), world_name);

TEST(DownpourInSimulation, AFetchIsUnderWayWhileTheNextGradientIsComputed) {
  ApartTraining t = apart("downpour", 1, 1);
  t.memory = Memory::hollow;
  t.count = 25'000'000;  // 10 ms each way
  const auto outcome = run_apart(simulated_world(), t);
  EXPECT_NEAR(outcome[0].trained_s, 20 * 0.1, 1e-3);
  EXPECT_NEAR(outcome[0].hidden_s, 19 * (0.01 + 0.01), 2e-3);  // the last is waited for
  EXPECT_EQ(outcome[1].exchanged.bytes_sent, 20 * 4 * t.count);
}

// More than a ring of shared memory holds is on its way to a worker that computes; another is
// answered meanwhile, also under the audit.
TEST(DownpourServers, WaitForNobodyWhoComputes) {
  ApartTraining t = apart("downpour:push=1,fetch=1", 2, 1);
  t.count = 200'000;
  t.steps = 6;
  t.audit = true;
  std::promise<void> served;
  std::future<void> other = served.get_future();
  t.gradient = [&](int w, int step, std::span<const float> weights, std::span<float> out) {
    whole_gradient(w, step, weights, out);
    if (w == 0 && step == 1) {
      EXPECT_EQ(other.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    }
    if (w == 1 && step == 4) served.set_value();
  };
  run_shm(t.ranks(), [&](Rank& rank) { train_apart(t, rank); });
}

}  // namespace
}  // namespace lockstep::testing
