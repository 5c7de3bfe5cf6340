// AD-PSGD: pairs average, sums stay, and nobody waits in a circle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/barrier.h"
#include "strategies/add_scaled.h"
#include "strategies/apart.h"
#include "strategies/peers/ad_psgd_exchange.h"
#include "transport/channels.h"

namespace lockstep::testing {
namespace {

ApartTraining of(int workers = 5) {
  ApartTraining t;
  t.make = [](const Crew& crew) { return make_strategy("ad-psgd", crew); };
  t.workers = workers;
  for (int w = 0; w < workers; ++w) t.step_s.push_back(0.1 + 0.017 * w);
  return t;
}

// Sums over workers, element by element, before the first step and after rest.
struct Sums {
  std::vector<double> before, after;
};

// Workers start apart: worker w has w·i in element i. They take no steps.
Sums run_from_apart(const World& world, int m, int steps, bool audit) {
  constexpr int n = 17;
  Sums sums{std::vector<double>(n), std::vector<double>(n)};
  std::vector<Floats> rested(m);
  world.run(m,
            [&](Rank& rank) {
              const Crew crew{rank, m, 0, false, all_reduce_named("ring")};
              const auto strategy = make_strategy("ad-psgd", crew);
              if (audit) strategy->parts().proofs->audit_exchanges(rank);
              ToyReplica replica(nullptr, Memory::plain, n, 0.5f);
              for (int i = 0; i < n; ++i)
                replica.weight_span()[i] = static_cast<float>(rank.rank() * i);
              strategy->begin(replica);
              strategy->parts().apart->go();
              const auto samples = even_samples(m);
              for (int t = 0; t < steps; ++t) {
                rank.clock.charge(0.1 + 0.013 * rank.rank());
                std::ranges::fill(replica.gradient_span(), 0.f);
                strategy->update(replica, {static_cast<std::uint64_t>(t), 0, samples});
                if (2 * t != steps) continue;
                strategy->parts().apart->rest(replica);
                strategy->parts().apart->go();
              }
              strategy->parts().apart->rest(replica);
              rested[rank.rank()] = copy_of(replica.weight_span());
            },
            {});
  for (int i = 0; i < n; ++i)
    for (int w = 0; w < m; ++w) {
      sums.before[i] += w * i;
      sums.after[i] += rested[w][i];
    }
  return sums;
}

class AdPsgd : public ::testing::TestWithParam<World> {};

// Few enough exchanges that halves of whole numbers are exact in fp32.
TEST_P(AdPsgd, TheSumIsConservedExactly) {
  const Sums sums = run_from_apart(GetParam(), 5, 5, false);
  EXPECT_EQ(sums.before, sums.after);
}

TEST_P(AdPsgd, TheSumIsConservedToRounding) {
  const Sums sums = run_from_apart(GetParam(), 7, 40, true);
  for (std::size_t i = 0; i < sums.before.size(); ++i)
    EXPECT_NEAR(sums.before[i], sums.after[i], 1e-5 * sums.before[i]);
}

TEST_P(AdPsgd, TheSumChangesByTheStepsAlone) {
  ApartTraining t = of();
  t.audit = true;
  const auto gradient = [](int w, int step, std::size_t i) {
    return static_cast<float>((w * 7 + step * 3 + static_cast<int>(i)) % 9 - 4);
  };
  t.gradient = [=](int w, int step, std::span<const float>, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = gradient(w, step, i);
  };
  const ApartOutcome outcome = run_apart(GetParam(), t);
  std::uint64_t exchanges = 0;
  for (const ApartRecord& record : outcome) exchanges += record.contributions.count;
  EXPECT_EQ(exchanges, 2u * 3 * t.steps);  // one a step of ranks 0, 2, 4, counted on both sides
  for (std::size_t i = 0; i < t.count; ++i) {
    double due = 0, sum = 0;
    for (int w = 0; w < t.workers; ++w) {
      due += static_cast<double>(i % 7);
      for (int step = 0; step < t.steps; ++step) due -= t.rate * gradient(w, step, i);
      sum += outcome[w].rested[i];
    }
    EXPECT_NEAR(sum, due, 1e-4);
  }
}

TEST_P(AdPsgd, AloneItIsPlainSgdBitForBit) {
  ApartTraining t = of(1);
  t.momentum = 0.9f;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  ToyReplica alone(nullptr, Memory::plain, t.count, t.rate, t.momentum);
  for (std::size_t i = 0; i < t.count; ++i) alone.weight_span()[i] = static_cast<float>(i % 7);
  for (int step = 0; step < t.steps; ++step) {
    compute_gradient(t, 0, step, alone);
    alone.apply_gradients(step);
    EXPECT_TRUE(same_bits(outcome[0].after[step], copy_of(alone.weight_span())));
  }
}

// An active one, and a passive one.
TEST_P(AdPsgd, AWorkerWithoutSamplesTakesNoPart) {
  ApartTraining t = of(5);
  t.samples = {4, 4, 0, 0, 4};
  t.momentum = 0.9f;
  t.audit = true;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (const int w : {2, 3}) {
    EXPECT_EQ(outcome[w].mass, 0);
    EXPECT_EQ(outcome[w].exchanged.bytes_sent, 0u);
    EXPECT_EQ(outcome[w].contributions.count, 0u);
    for (std::size_t i = 0; i < t.count; ++i)
      EXPECT_EQ(outcome[w].rested[i], static_cast<float>(i % 7));
  }
  for (const int w : {0, 1, 4}) {
    EXPECT_EQ(outcome[w].mass, 1);
    EXPECT_GT(outcome[w].contributions.count, 0u);
  }
}

// The passive one has samples in every other step of its own: the others can't know which.
TEST_P(AdPsgd, WhoTrainsIsAskedWhateverItsStep) {
  ApartTraining t = of(3);
  t.idle = [](int w, std::uint64_t step) { return w == 1 && step % 2 == 1; };
  t.empty_steps_take_time = false;
  t.audit = true;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  EXPECT_EQ(outcome[0].contributions.count, static_cast<std::uint64_t>(t.steps));
  EXPECT_EQ(outcome[2].contributions.count, static_cast<std::uint64_t>(t.steps));
  for (const ApartRecord& record : outcome) EXPECT_EQ(record.sends.withheld, 0u);
}

TEST_P(AdPsgd, AnExchangeThatFindsNobodyIsCounted) {
  ApartTraining t = of(3);
  t.samples = {4, 0, 4};
  const ApartOutcome outcome = run_apart(GetParam(), t);
  EXPECT_EQ(outcome[0].sends.withheld, static_cast<std::uint64_t>(t.steps));
  EXPECT_EQ(outcome[1].sends.withheld, 0u);
  EXPECT_EQ(outcome[2].sends.withheld, static_cast<std::uint64_t>(t.steps));
}

TEST_P(AdPsgd, LongVectorsAreAveragedToo) {
  ApartTraining t = of(4);
  t.count = 700'001;
  t.steps = 6;
  t.audit = true;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (const ApartRecord& record : outcome) EXPECT_GT(record.contributions.count, 0u);
}

// Every passive worker by every active one, and nobody else.
TEST_P(AdPsgd, EverybodyIsChosenByEverybodyOfTheOtherSide) {
  ApartTraining t = of();
  t.steps = 200;
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (int w = 0; w < t.workers; ++w) {
    std::vector<double> weight = outcome[w].contributions.weight;
    weight.resize(t.workers);
    for (int with = 0; with < t.workers; ++with)
      EXPECT_EQ(weight[with] > 0, (with - w) % 2 != 0) << w << " with " << with;
  }
}

TEST_P(AdPsgd, AnExchangeMovesFourNBytesEachWay) {
  const ApartTraining t = of();
  const ApartOutcome outcome = run_apart(GetParam(), t);
  for (const ApartRecord& record : outcome) {
    const std::uint64_t exchanges = record.contributions.count;
    EXPECT_EQ(record.exchanged.bytes_sent, exchanges * 4 * t.count);
    EXPECT_EQ(record.exchanged.bytes_received, exchanges * 4 * t.count);
    EXPECT_EQ(record.exchanged.messages_sent, exchanges);
  }
}

// An active worker's, and a passive one's.
TEST_P(AdPsgd, TheAuditFindsWhatIsAskedChangedOnItsWay) {
  const Tamper asked{[](Tag tag) { return tag.key() == channels::kAdPsgdActive.key(); }};
  EXPECT_THROW(run_tampered(GetParam(), of(), asked), AuditError);
}
TEST_P(AdPsgd, TheAuditFindsWhatIsAnsweredChangedOnItsWay) {
  const Tamper answered{[](Tag tag) { return tag.key() == channels::kAdPsgdPassive.key(); }};
  EXPECT_THROW(run_tampered(GetParam(), of(), answered), AuditError);
}

INSTANTIATE_TEST_SUITE_P(Every, AdPsgd, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

// Several trainings on the first ranks of one fabric, one after the other.
using NthTraining = std::function<ApartTraining(std::uint64_t n)>;
std::vector<ApartOutcome> simulate(int count, int most, const NthTraining& nth,
                                   bool other_seeds = false) {
  std::vector<ApartOutcome> outcomes(count);
  for (int n = 0; n < count; ++n) outcomes[n].resize(nth(n).workers);
  run_simulated_fabric(most,
                       [&](Rank& rank) {
                         for (int n = 0; n < count; ++n) {
                           barrier(rank.peers, {Purpose::control, 7});
                           const ApartTraining training = nth(n);
                           if (rank.rank() >= training.workers) continue;
                           std::vector<int> first(training.workers);
                           std::iota(first.begin(), first.end(), 0);
                           Group group(rank.peers, first);
                           Rank mine{group, rank.clock, rank.background, rank.lock,
                                     other_seeds ? rank.seed + n : rank.seed};
                           outcomes[n][rank.rank()] = train_apart(training, mine);
                         }
                       },
                       {});
  return outcomes;
}

// A circle of waiting would end the simulation with an error that says who waits for whom.
TEST(AdPsgdInSimulation, NobodyWaitsInACircleInAThousandSchedules) {
  const auto nth = [](std::uint64_t n) {
    ApartTraining t = of(2 + static_cast<int>(n % 6));
    t.steps = 6;
    t.count = 5;
    t.step_s.clear();
    for (int w = 0; w < t.workers; ++w)  // from no time at all to many messages' time
      t.step_s.push_back(1e-6 * static_cast<double>(mixed(n * 64 + w) % 50));
    return t;
  };
  const auto outcomes = simulate(1000, 7, nth, true);
  for (const ApartOutcome& outcome : outcomes)
    for (std::size_t w = 0; w < outcome.size(); ++w) {
      ASSERT_EQ(outcome[w].after.size(), 6u);
      ASSERT_TRUE(w % 2 == 1 || outcome[w].contributions.count == 6u);
    }
}

TEST(AdPsgdInSimulation, OneSeedGivesTheSameBitsTwice) {
  const auto outcomes = simulate(2, 5, [](std::uint64_t) { return of(); });
  for (int w = 0; w < 5; ++w)
    for (int t = 0; t < 20; ++t)
      EXPECT_TRUE(same_bits(outcomes[0][w].after[t], outcomes[1][w].after[t]));
}

// Which of three workers is three times as slow: the only one that answers, or one that asks.
class AdPsgdSlow : public ::testing::TestWithParam<int> {};
TEST_P(AdPsgdSlow, NobodyWaitsForIt) {
  const auto nth = [](std::uint64_t) {
    ApartTraining t = of(3);
    t.step_s = std::vector<double>(3, 0.1);
    t.step_s[GetParam()] = 0.3;
    return t;
  };
  const ApartOutcome outcome = simulate(1, 3, nth)[0];
  for (int w = 0; w < 3; ++w) {
    EXPECT_NEAR(outcome[w].trained_s, w == GetParam() ? 6 : 2, 1e-2) << w;
    EXPECT_LT(outcome[w].waited_s, 1e-2);
  }
}
INSTANTIATE_TEST_SUITE_P(PassiveAndActive, AdPsgdSlow, ::testing::Values(1, 2));

// Both sides step while the messages of one exchange fly, and no step is lost.
TEST(AdPsgdInSimulation, StepsDuringAnExchangeAreKept) {
  SimulatedCluster cluster;
  cluster.ranks = 2;
  cluster.bandwidth_bytes_per_s = 4e5;  // a tenth of a second each way
  constexpr std::size_t n = 10'000;
  float after[2];
  Contributions seen;
  run_simulated(cluster, [&](Rank& rank) {
    Floats start(n, rank.rank() == 0 ? 16.f : 0.f);
    AdPsgdExchange exchange(rank, {start.data(), n, Type::fp32}, MixAudit());
    const auto job = rank.background.post([&](Transport& lane) {
      if (rank.rank() == 1) return exchange.answer(lane, {0});
      exchange.meet(lane, 1);
      exchange.say_rest(lane, {1});
    });
    rank.clock.charge(rank.rank() == 0 ? 0.15 : 0.05);
    {
      const std::lock_guard hold(rank.lock);
      Floats step(n, rank.rank() == 0 ? 2.f : 32.f);
      add_scaled(exchange.x(), 1, {step.data(), n, Type::fp32});
      exchange.stepped();
    }
    rank.background.wait(job);
    after[rank.rank()] = copy_of(exchange.x())[0];
    if (rank.rank() == 0) seen = exchange.contributions();
  });
  // 16 and 0 + 32 meet at 24: +8 and -8.
  EXPECT_EQ(after[0], 16 + 2 + 8);
  EXPECT_EQ(after[1], 32 - 8);
  EXPECT_EQ(seen.staleness, (std::vector<std::uint64_t>{0, 1}));
}

TEST(AdPsgdInSimulation, TwoWorkersMeetInTheMiddle) {
  const auto nth = [](std::uint64_t) {
    ApartTraining t = of(2);
    t.steps = 1;
    t.step_s = {0.2, 0.1};  // both have stepped when they meet
    t.gradient = [](int w, int, std::span<const float>, std::span<float> out) {
      std::ranges::fill(out, w == 0 ? 8.f : -8.f);
    };
    return t;
  };
  const ApartOutcome outcome = simulate(1, 2, nth)[0];
  for (std::size_t i = 0; i < outcome[0].rested.size(); ++i) {
    EXPECT_EQ(outcome[0].after[0][i], static_cast<float>(i % 7) - 2);
    EXPECT_EQ(outcome[0].rested[i], static_cast<float>(i % 7));
    EXPECT_EQ(outcome[1].rested[i], static_cast<float>(i % 7));
  }
}

// Two active workers and one passive: its line is full in both directions, since the weights of the
// next come while the answer to the last goes.
TEST(AdPsgdInSimulation, APassiveWorkersLineIsFullInBothDirections) {
  ApartTraining t = of(3);
  t.count = 140'000;
  t.memory = Memory::hollow;
  t.step_s = {0.01, 0.01, 0.01};
  SimulatedCluster cluster;
  cluster.ranks = 3;
  cluster.bandwidth_bytes_per_s = 10 * 4.0 * static_cast<double>(t.count);  // ten vectors a second
  ApartOutcome outcome(3);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (const int active : {0, 2}) EXPECT_LT(outcome[active].trained_s, t.steps * 0.21 + 0.2);
}

TEST(AdPsgdInSimulation, ExchangesAreHiddenBehindTheComputation) {
  constexpr double kShort = 4e-4;
  const auto nth = [](std::uint64_t n) {
    ApartTraining t = of(2);
    t.count = 1'000'000;
    t.memory = Memory::hollow;
    t.step_s = std::vector<double>(2, n == 0 ? 0.1 : kShort);
    return t;
  };
  const auto outcomes = simulate(2, 2, nth);
  // Who asks waits for the last, at rest.
  const double one = outcomes[0][1].hidden_s / 20;
  EXPECT_NEAR(one, 2 * 4e6 / SimulatedCluster().local_bandwidth_bytes_per_s, 1e-5);
  EXPECT_NEAR(outcomes[0][0].hidden_s, 19 * one, 1e-4);
  EXPECT_NEAR(outcomes[0][0].waited_s, one, 1e-5);
  EXPECT_NEAR(outcomes[1][0].hidden_s, 19 * kShort, 1e-4);
  EXPECT_NEAR(outcomes[1][0].waited_s, 19 * (one - kShort) + one, 1e-4);
}

TEST(AdPsgdInSimulation, HollowWeightsTakeTheSameTime) {
  const auto nth = [](std::uint64_t n) {
    ApartTraining t = of();
    t.count = 1'000'000;
    t.steps = 4;
    for (int w = 0; w < 5; ++w) t.step_s[w] = 1e-4 + 0.07e-4 * w;  // no ties
    t.memory = n == 0 ? Memory::plain : Memory::hollow;
    return t;
  };
  const auto outcomes = simulate(2, 5, nth);
  for (int w = 0; w < 5; ++w) {
    EXPECT_NEAR(outcomes[0][w].trained_s, outcomes[1][w].trained_s, 1e-9);
    EXPECT_EQ(outcomes[1][w].waited_s > 1e-4, w % 2 == 0);  // for the network
  }
}

}  // namespace
}  // namespace lockstep::testing
