// What the results of a round are made into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "strategies/registry.h"
#include "strategies/rounds/round_strategy.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Floats = std::vector<float>;

// Runs `what` with the strategy of that spec, on the manager of `workers`.
template <class F>
void on_manager(const std::string& spec, int workers, F&& what) {
  run_loopback(workers + 1, [&](Rank& rank) {
    const Crew crew{rank, workers, 1, false, all_reduce_named("ring")};
    const auto strategy = make_strategy(spec, crew);
    if (!crew.works()) what(in_rounds(*strategy), rank);
  });
}

struct Came {
  int task;
  double loss;
  std::uint64_t samples = 10;
};

std::vector<double> factors(const std::string& spec, const std::vector<Came>& came) {
  std::vector<RoundResult> results;
  for (const Came& c : came)
    results.push_back({c.task, c.task, c.loss, c.samples, {Values::hollow(1, Type::fp32)}});
  std::vector<double> factors;
  on_manager(spec, 4, [&](RoundStrategy& rule, const Rank&) { factors = rule.factors(results); });
  return factors;
}

TEST(EpochAverage, FactorsAreAsTheRuleSays) {
  const std::vector<Came> all = {{0, 1}, {1, 2}, {2, 0}, {3, 5}};
  EXPECT_THAT(factors("epoch-average", all), ElementsAre(0.25, 0.25, 0.25, 0.25));
  EXPECT_THAT(factors("epoch-average:aggregate=weighted", all), ElementsAre(0.125, 0.25, 0, 0.625));
  EXPECT_THAT(factors("epoch-average:aggregate=first", all), ElementsAre(1, 0, 0, 0));
}

TEST(EpochAverage, FactorsFollowWhatResultsThereAre) {
  const std::vector<Came> some = {{1, 3}, {3, 1}};  // tasks 0 and 2 were dropped
  EXPECT_THAT(factors("epoch-average", some), ElementsAre(0.5, 0.5));
  EXPECT_THAT(factors("epoch-average:aggregate=weighted", some), ElementsAre(0.75, 0.25));
  EXPECT_THAT(factors("epoch-average:aggregate=first", some), ElementsAre(1, 0));
  // Who had no samples learnt nothing.
  const std::vector<Came> idle = {{0, 0, 0}, {1, 3}, {2, 1}};
  EXPECT_THAT(factors("epoch-average", idle), ElementsAre(0, 0.5, 0.5));
  EXPECT_THAT(factors("epoch-average:aggregate=first", idle), ElementsAre(0, 1, 0));
  EXPECT_THAT(factors("epoch-average", {{0, 0, 0}, {1, 0, 0}}), ElementsAre(0.5, 0.5));
}

TEST(EpochAverage, NoLossAtAllCountsAlike) {
  EXPECT_THAT(factors("epoch-average:aggregate=weighted", {{0, 0}, {1, 0}, {2, 0}, {3, 0}}),
              ElementsAre(0.25, 0.25, 0.25, 0.25));
}

TEST(EpochAverage, FactorsAddUpToOneAndNoneIsNegative) {
  for (const std::string rule : {"average", "weighted", "first"})
    for (int n = 1; n <= 4; ++n) {
      std::vector<Came> came;
      for (int k = 0; k < n; ++k) came.push_back({k, 0.1 * (k * 7 % 5)});
      const auto by = factors("epoch-average:aggregate=" + rule, came);
      EXPECT_THAT(std::accumulate(by.begin(), by.end(), 0.0), DoubleEq(1));
      for (const double factor : by) EXPECT_GE(factor, 0);
    }
}

// Of so many results that are the given vectors, the first in front.
Floats aggregated(const std::string& spec, std::vector<Floats> from) {
  Floats weights(from[0].size(), 9);
  on_manager(spec, static_cast<int>(from.size()), [&](RoundStrategy& rule, const Rank&) {
    std::vector<RoundResult> results;
    for (int k = 0; k < std::ssize(from); ++k)
      results.push_back({k, k, 1.0 + k, 10, {Values(from[k].data(), from[k].size(), Type::fp32)}});
    rule.aggregate({Values(weights.data(), weights.size(), Type::fp32)}, results);
    const Contributions& seen = rule.figures().contributions;
    EXPECT_EQ(seen.count, from.size());
    EXPECT_THAT(std::accumulate(seen.weight.begin(), seen.weight.end(), 0.0), DoubleEq(1));
  });
  return weights;
}

// The weights count alike, the statistics of batch norm by samples.
TEST(EpochAverage, StatisticsCountBySamples) {
  Floats weights(2), statistics(1);
  std::vector<Floats> w{{0, 4}, {2, 0}, {7, 7}}, s{{1}, {5}, {100}};
  const auto values = [](Floats& f) { return Values(f.data(), f.size(), Type::fp32); };
  on_manager("epoch-average", 3, [&](RoundStrategy& rule, const Rank&) {
    std::vector<RoundResult> results;
    for (int k = 0; k < 3; ++k)
      results.push_back({k, k, 1, k == 0 ? 30u : k == 1 ? 10u : 0u, {values(w[k]), values(s[k])}});
    rule.aggregate({values(weights), values(statistics)}, results);
  });
  EXPECT_EQ(weights, (Floats{1, 2}));
  EXPECT_EQ(statistics, Floats{2});
}

TEST(EpochAverage, ZeroAndOneMakeAHalf) {
  // What the published code gets wrong.
  EXPECT_EQ(aggregated("epoch-average", {Floats(5000, 0), Floats(5000, 1)}), Floats(5000, 0.5));
  EXPECT_EQ(aggregated("epoch-average:aggregate=first", {Floats(3, 0), Floats(3, 1)}),
            Floats(3, 0));
}

TEST(EpochAverage, EqualResultsComeOutAsTheyAre) {
  Floats some(4099);
  for (std::size_t i = 0; i < some.size(); ++i)
    some[i] = 0.1f * static_cast<float>(i) - 1e-3f * static_cast<float>(i * i % 977);
  for (const std::string rule : {"average", "weighted", "first"})
    for (const std::size_t m : {1, 3, 7, 10})
      EXPECT_EQ(aggregated("epoch-average:aggregate=" + rule, std::vector<Floats>(m, some)), some)
          << rule << " of " << m;
}

TEST(EpochAverage, TheAuditSeesAMeanThatIsNone) {
  on_manager("epoch-average", 2, [&](RoundStrategy& rule, const Rank& rank) {
    rule.audit_exchanges(rank);
    Floats a(100, 1), b(100, 3), weights(100);
    const Values at[] = {{a.data(), 100, Type::fp32}, {b.data(), 100, Type::fp32}};
    std::vector<RoundResult> results = {{0, 0, 1, 10, {at[0]}, rule.proof_of({at[0]})},
                                        {1, 1, 1, 10, {at[1]}, rule.proof_of({at[1]})}};
    rule.aggregate({Values(weights.data(), 100, Type::fp32)}, results);
    EXPECT_EQ(weights, Floats(100, 2));
    b[7] = 4;  // not what the worker sent
    EXPECT_THAT([&] { rule.aggregate({Values(weights.data(), 100, Type::fp32)}, results); },
                ThrowsMessage<AuditError>(HasSubstr("the mean of 2 results")));
  });
}

TEST(EpochAverage, SaysWhatItNeeds) {
  const auto refused = [](const std::string& spec, int servers, bool colocated, const char* why) {
    EXPECT_THAT(
        [&] {
          check_strategy(spec, {3, servers, colocated});
        },
        ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  check_strategy("epoch-average:give_up=2min,reissue=never,exchange=files", {3, 1});
  refused("epoch-average", 2, false, "one manager, a rank of its own");
  refused("epoch-average", 1, true, "one manager, a rank of its own");
  refused("epoch-average:aggregate=mean", 1, false, "weighted");
  refused("epoch-average:exchange=post", 1, false, "files");
  refused("epoch-average:reissue=maybe", 1, false, "never");
  refused("epoch-average:give_up=soon", 1, false, "give_up");
  EXPECT_FALSE(strategy_named("epoch-average").goes_apart());
}

}  // namespace
}  // namespace lockstep
