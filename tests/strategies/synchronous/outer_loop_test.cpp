// SlowMo and DiLoCo against their rules written out in double precision, and their special cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/registry.h"
#include "strategies/bucket_mean.h"
#include "strategies/contract.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

Training of(const std::string& spec, int workers = 4) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  t.samples = uneven_samples(workers);
  t.whole_numbers = false;
  t.steps = 12;
  return t;
}

double largest_difference(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (std::size_t r = 0; r < a.size(); ++r)
    for (std::size_t t = 0; t < a[r].steps.size(); ++t)
      for (std::size_t i = 0; i < a[r].steps[t].after.size(); ++i)
        most = std::max(
            most, std::abs(static_cast<double>(a[r].steps[t].after[i]) - b[r].steps[t].after[i]));
  return most;
}

class OuterLoops : public ::testing::TestWithParam<World> {};

// Momentum of the inner optimiser and uneven samples included. To rounding: see the strategies.
TEST_P(OuterLoops, WithoutMomentumAndAtFullRateAreLocalSgd) {
  std::vector<Training> trainings{of("local-sgd:period=3"), of("slow-mo:period=3,momentum=0"),
                                  of("diloco:period=3,lr=1,momentum=0"),
                                  of("slow-mo:period=3,momentum=0.5")};
  for (Training& t : trainings) t.momentum = 0.9f;
  const auto outcomes = run_all(GetParam(), trainings);
  EXPECT_LT(largest_difference(outcomes[0], outcomes[1]), 2e-5);
  EXPECT_LT(largest_difference(outcomes[0], outcomes[2]), 2e-5);
  EXPECT_GT(largest_difference(outcomes[0], outcomes[3]), 0.1);
}

TEST_P(OuterLoops, SendTheBytesOfLocalSgd) {
  const auto outcomes = run_all(
      GetParam(), {of("local-sgd:period=3"), of("slow-mo:period=3"), of("diloco:period=3")});
  for (int r = 0; r < 4; ++r)
    for (int t = 0; t < 12; ++t)
      for (const int other : {1, 2})
        EXPECT_EQ(outcomes[other][r].steps[t].sent, outcomes[0][r].steps[t].sent);
}

TEST_P(OuterLoops, MemoriesHaveTheSameBitsOnAllRanks) {
  for (const Outcome& outcome :
       run_all(GetParam(), {of("slow-mo:period=3"), of("diloco:period=3")}))
    for (std::size_t t = 0; t < outcome[0].steps.size(); ++t)
      for (std::size_t k = 0; k < 2; ++k)
        for (int r = 1; r < 4; ++r)
          EXPECT_TRUE(same_bits(outcome[r].steps[t].memories[k].after,
                                outcome[0].steps[t].memories[k].after));
}

INSTANTIATE_TEST_SUITE_P(Every, OuterLoops, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

// One worker's own steps, and the outer rule in double precision: x, where a round began, and its
// momentum; `outer` is given the mean and steps the other two.
using OuterRule = std::function<void(double mean, double& start, double& momentum)>;
void expect_rule(const std::string& spec, const OuterRule& outer) {
  Training t = of(spec, 3);
  t.samples = even_samples(3);
  const Outcome outcome = run_all({"loopback", run_loopback}, {t})[0];
  for (std::size_t i = 0; i < t.count; ++i) {
    double start = first_weight(t, i), momentum = 0;
    for (int step = 0; step < t.steps; ++step) {
      if (step % 4 != 3) continue;
      double mean = 0;
      for (int r = 0; r < 3; ++r)
        mean += (outcome[r].steps[step].before[i] -
                 Training::kRate * outcome[r].steps[step].gradients[i]) /
                3;
      outer(mean, start, momentum);
      EXPECT_NEAR(outcome[0].steps[step].after[i], start, 1e-4);
      EXPECT_NEAR(outcome[0].steps[step].memories[1].after[i], momentum, 1e-4);
      start = outcome[0].steps[step].after[i];
    }
  }
}

TEST(SlowMo, FollowsItsPaper) {
  expect_rule("slow-mo:period=4,momentum=0.6,rate=0.8", [](double x_tau, double& x_0, double& u) {
    u = 0.6 * u + (x_0 - x_tau) / Training::kRate;
    x_0 = x_0 - 0.8 * Training::kRate * u;
  });
}

TEST(DiLoCo, FollowsItsPaper) {
  expect_rule("diloco:tau=4", [](double mean, double& theta, double& v) {
    const double d = theta - mean;
    v = 0.9 * v + d;
    theta = theta - 0.7 * (d + 0.9 * v);
  });
}

// Samples since the round began and the memories come through a checkpoint.
TEST(OuterLoop, GoesOnAfterACheckpoint) {
  run_loopback(2, [](Rank& rank) {
    const Crew crew{rank, 2, 0, false, all_reduce_named("ring")};
    const auto run = [&](bool interrupted) {
      auto strategy = make_strategy("diloco:period=3", crew);
      ToyReplica replica(nullptr, Memory::plain, 5, 0.25f);
      strategy->begin(replica);
      for (std::uint64_t t = 0; t < 9; ++t) {
        const std::vector<std::size_t> samples{t % 4, 3};
        for (int i = 0; i < 5; ++i)
          replica.gradient_span()[i] = static_cast<float>(rank.rank() + i + t % 3);
        strategy->update(replica, {t, 0, samples});
        if (!interrupted || t != 4) continue;
        auto restored = make_strategy("diloco:period=3", crew);
        restored->begin(replica);
        for (std::size_t k = 0; k < 2; ++k)
          copy(restored->memories()[k].values.bytes(), strategy->memories()[k].values.bytes());
        restored->restore(strategy->state());
        strategy = std::move(restored);
      }
      return copy_of(replica.weight_span());
    };
    EXPECT_TRUE(same_bits(run(false), run(true)));
    EXPECT_THROW(make_strategy("diloco", crew)->restore("1 0 7"), UsageError);
  });
}

// In each round a quarter of the numbers has gradients, another quarter each time, so that messages
// with the largest quarter lose nothing of them. What the outer step moves is in no message: all
// workers know it.
TEST(OuterLoop, KeepsItsMomentumWhereMessagesHaveNoRoomForIt) {
  constexpr std::size_t kCount = 24, kSent = kCount / 4;
  for (const std::string spec : {"slow-mo:period=1,momentum=0.5", "diloco:period=1,momentum=0.5"}) {
    std::vector<std::vector<Floats>> after(2, std::vector<Floats>(2));
    for (const bool compresses : {false, true})
      run_loopback(2, [&](Rank& rank) {
        MeanRule rule;
        if (compresses) rule.compression = compression("topk:ratio=0.25");
        const Crew crew{.rank = rank,
                        .workers = 2,
                        .collective = all_reduce_named("ring"),
                        .means = bucket_means(rule)};
        const auto strategy = make_strategy(spec, crew);
        ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
        strategy->begin(replica);
        const std::vector<std::size_t> samples{1, 1};
        for (std::uint64_t t = 0; t < 8; ++t) {
          for (std::size_t i = 0; i < kCount; ++i)
            replica.gradient_span()[i] =
                i / kSent == t % 4 ? static_cast<float>(i + t + rank.rank()) + 1 : 0;
          strategy->update(replica, {t, 0, samples});
        }
        after[compresses][rank.rank()] = copy_of(replica.weight_span());
      });
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(after[1][0][i], after[0][0][i], 1e-4) << spec << ", " << i;
    EXPECT_TRUE(same_bits(after[1][0], after[1][1])) << spec;
  }
}

TEST(OuterLoop, RefusesWhatCannotBe) {
  for (const std::string spec : {"slow-mo:period=0", "slow-mo:momentum=1", "slow-mo:rate=0",
                                 "diloco:period=-1", "diloco:momentum=-0.1", "diloco:lr=0"})
    try {
      check_strategy(spec, {2});
      FAIL() << spec;
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr(spec.substr(spec.find(':') + 1, 2)));
    }
}

}  // namespace
}  // namespace lockstep::testing
