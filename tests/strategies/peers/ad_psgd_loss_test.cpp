// AD-PSGD goes on without who is lost, whatever was under way.
#include <gtest/gtest.h>

#include "strategies/apart.h"
#include "strategies/peers/ad_psgd_exchange.h"
#include "transport/decorators/decorator.h"

namespace lockstep::testing {
namespace {

ApartTraining of(int workers = 5) {
  ApartTraining t;
  t.make = [](const Crew& crew) { return make_strategy("ad-psgd", crew); };
  t.workers = workers;
  for (int w = 0; w < workers; ++w) t.step_s.push_back(0.1 + 0.017 * w);
  return t;
}

class AdPsgdLosses : public ::testing::TestWithParam<World> {};

TEST_P(AdPsgdLosses, GoesOnWithoutAPassiveWorkerThatLeft) {
  ApartTraining t = of();
  t.leaves = 1;
  FabricOptions options;
  options.patience_seconds = 20;
  const ApartOutcome outcome = run_apart(GetParam(), t, options);
  for (int w = 0; w < t.workers; ++w) EXPECT_EQ(std::ssize(outcome[w].after), w == 1 ? 5 : t.steps);
}

TEST_P(AdPsgdLosses, GoesOnWithoutAnActiveWorkerThatLeft) {
  ApartTraining t = of();
  t.leaves = 2;
  FabricOptions options;
  options.patience_seconds = 20;
  const ApartOutcome outcome = run_apart(GetParam(), t, options);
  for (int w = 0; w < t.workers; ++w) EXPECT_EQ(std::ssize(outcome[w].after), w == 2 ? 5 : t.steps);
}

TEST_P(AdPsgdLosses, TheLastPassiveWorkerMayLeaveToo) {
  ApartTraining t = of(3);
  t.leaves = 1;
  FabricOptions options;
  options.patience_seconds = 20;
  const ApartOutcome outcome = run_apart(GetParam(), t, options);
  for (const int w : {0, 2}) EXPECT_EQ(std::ssize(outcome[w].after), t.steps);
}

INSTANTIATE_TEST_SUITE_P(Every, AdPsgdLosses, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST(AdPsgdLossesInSimulation, GoesOnWithoutWorkersThatDied) {
  ApartTraining t = of(6);
  t.count = 100'000;
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.bandwidth_bytes_per_s = 5e6;
  cluster.patience_s = 20;
  cluster.deaths = {{3, 0.75}, {0, 1.23}};
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (const int w : {1, 2, 4, 5}) EXPECT_EQ(std::ssize(outcome[w].after), t.steps);
}

// Nobody is lost who only takes its time.
TEST(AdPsgdLossesInSimulation, AnAnswerMayTakeLongerThanTheTransportIsPatient) {
  ApartTraining t = of(2);
  t.count = 100'000;
  t.steps = 2;
  SimulatedCluster cluster;
  cluster.ranks = t.workers;
  cluster.bandwidth_bytes_per_s = 4e4;
  cluster.patience_s = 1;
  ApartOutcome outcome(t.workers);
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  for (const ApartRecord& record : outcome) EXPECT_EQ(record.contributions.count, 2u);
}

// More than a ring of shared memory holds: a message of so many is half sent when its sender goes.
constexpr std::size_t kLong = 200'000;

// Who waits on this lane goes away, and does not stay for what it has begun to send.
class Leaving final : public Decorator {
 public:
  using Decorator::Decorator;
  Ending wait_any(std::span<const Request>, Deadline) override { throw Stopped("planted"); }

  class Stopped : public Error {
    using Error::Error;
  };
};

// The one whose end is heard of first, or another.
class AdPsgdLoss : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Active, AdPsgdLoss, ::testing::Values(0, 2));

TEST_P(AdPsgdLoss, AnActiveWorkerGoesInTheMidstOfItsWeights) {
  ApartTraining t = of(4);
  t.count = kLong;
  t.steps = 6;
  ApartOutcome outcome(t.workers);
  FabricOptions options;
  options.patience_seconds = 20;
  run_shm(
      t.workers,
      [&](Rank& rank) {
        if (rank.rank() != GetParam()) {
          outcome[rank.rank()] = train_apart(t, rank);
          return;
        }
        Floats weights(kLong);
        AdPsgdExchange exchange(rank, {weights.data(), kLong, Type::fp32}, MixAudit());
        const auto job = rank.background.post([&](Transport& lane) {
          Leaving leaving(lane);
          exchange.meet(leaving, 1);
        });
        EXPECT_THROW(rank.background.wait(job), Leaving::Stopped);
      },
      options);
  for (int w = 0; w < t.workers; ++w)
    EXPECT_EQ(std::ssize(outcome[w].after), w == GetParam() ? 0 : t.steps) << w;
  EXPECT_GT(outcome[1].contributions.count, 0u);
}

}  // namespace
}  // namespace lockstep::testing
