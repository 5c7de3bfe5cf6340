// Pushes to servers that begin while backward runs: the same bits and bytes as without, in less
// time.
#include "strategies/servers/fed_push.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "central_cases.h"
#include "strategies/audited_training.h"
#include "strategies/contract.h"
#include "strategies/overlapped.h"
#include "transport/simulated/simulated.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

constexpr std::size_t kCount = 43;  // three matrices of 3 x 4, and a bias

Training together(int workers, int servers, bool colocated) {
  Training t = pushing_together(servers, colocated, {});
  t.workers = workers;
  t.samples = uneven_samples(workers);
  t.count = kCount;
  return t;
}

auto in_so_many(int buckets, std::size_t count) {
  const std::size_t bytes = size_of(Type::fp32) * count / buckets;
  return [bytes](std::span<const TensorGradient> tensors) {
    return buckets_by_size(tensors, bytes, bytes);
  };
}

class FedPushIn : public ::testing::TestWithParam<World> {};

// Numbers that round, too.
TEST_P(FedPushIn, GivesTheBitsAndBytesOfAPushThatWaits) {
  std::vector<Training> trainings;
  for (const int workers : {1, 2, 3, 5})
    for (const auto& [servers, colocated] :
         {std::pair(1, false), {3, false}, {1, true}, {workers, true}}) {
      Training t = together(workers, servers, colocated);
      t.whole_numbers = false;
      trainings.insert(trainings.end(), {t, overlapped(t), in_buckets(t), measured(t)});
    }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 4)
    for (const std::size_t other : {1, 2, 3}) {
      EXPECT_THAT(same_as(outcomes[i], outcomes[i + other]), IsEmpty()) << i << " " << other;
      EXPECT_THAT(bytes_are_as_promised(trainings[i + other], outcomes[i + other]), IsEmpty());
    }
}

TEST_P(FedPushIn, DoesWhatIsStatedAndPassesTheAudit) {
  std::vector<Training> trainings;
  for (const int workers : {1, 3})
    for (const auto& [servers, colocated] : {std::pair(2, false), {1, true}}) {
      trainings.push_back(overlapped(together(workers, servers, colocated)));
      trainings.push_back(with_audit(trainings.back()));
    }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << i;
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << i;
  }
}

// One worker is plain SGD, to the bit, as it is without overlap.
TEST_P(FedPushIn, OfOneWorkerThatGoesApartIsSgd) {
  std::vector<ApartTraining> trainings;
  for (const std::string spec : {"asp", "ssp", "ssp:s=0"})
    for (const int servers : {1, 3}) {
      ApartTraining t = apart(spec, 1, servers);
      t.count = kCount;
      t.momentum = 0.5;
      t.gradient = rough_gradient;
      t.audit = true;
      trainings.insert(trainings.end(), {overlapped(t), in_buckets(t), measured(t)});
    }
  const std::vector<Floats> expected = alone(trainings[0]);
  for (const ApartOutcome& outcome : run_apart_all(GetParam(), trainings)) {
    ASSERT_EQ(outcome[0].after.size(), expected.size());
    for (std::size_t t = 0; t < expected.size(); ++t)
      EXPECT_TRUE(same_bits(outcome[0].after[t], expected[t])) << t;
    EXPECT_EQ(outcome[0].exchanged.bytes_sent, trainings[0].steps * 4 * kCount);
  }
}

// Whatever the order in which pushes come: each counts once.
TEST_P(FedPushIn, OfSeveralWorkersThatGoApartCountsOnce) {
  std::vector<ApartTraining> trainings;
  for (const std::string spec : {"asp", "ssp:s=1"}) {
    ApartTraining& t = trainings.emplace_back(overlapped(apart(spec, 3, 2)));
    t.count = kCount;
    t.gradient = whole_gradient;
    t.audit = true;
    t.idle = [](int w, std::uint64_t step) { return w == 1 && step % 4 == 3; };
  }
  const ApartTraining& t = trainings[0];
  Floats expected(kCount), gradient(kCount);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] = static_cast<float>(i % 7);
  for (int w = 0; w < t.workers; ++w)
    for (int step = 0; step < t.steps; ++step) {
      whole_gradient(w, step, {}, gradient);
      for (std::size_t i = 0; i < kCount && !t.idle(w, step); ++i)
        expected[i] -= t.rate * gradient[i];
    }
  for (const ApartOutcome& outcome : run_apart_all(GetParam(), trainings)) {
    expect_all_got_the_model(t, outcome);
    EXPECT_TRUE(same_bits(outcome[0].model, expected));
  }
}

TEST_P(FedPushIn, TheAuditFindsNumbersThatChangedOnTheirWay) {
  const Tamper pushed{[](Tag tag) { return tag.purpose == Purpose::gradients; }};
  for (const std::string spec : {"asp", "ssp:s=1"}) {
    ApartTraining t = overlapped(apart(spec, 2, 1));
    t.count = kCount;
    EXPECT_THROW(run_tampered(GetParam(), t, pushed), AuditError) << spec;
    if (GetParam().name == "simulated") break;  // a process can run one simulation
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FedPushIn, ::testing::ValuesIn(strategy_worlds()), world_name);

// In simulation, with one server behind a line on which all numbers take 0.4 s.
class FedPushInTime : public ::testing::Test {
 protected:
  static constexpr double kAllSeconds = 0.4, kStepSeconds = 1.2;  // a third of it forward

  static ApartTraining of(const std::string& spec, int workers = 1) {
    ApartTraining t = apart(spec, workers, 1);
    t.count = 12 * 5'600;  // a quarter is longer than a message that goes unasked (kEagerBytes)
    t.step_s.assign(workers, kStepSeconds);
    t.steps = 5;
    return t;
  }
  // In four buckets.
  static ApartTraining beside_backward(ApartTraining t) {
    t = overlapped(std::move(t));
    t.push_buckets->plan = in_so_many(4, t.count);
    return t;
  }
  static ApartOutcome run(const ApartTraining& t,
                          const std::vector<SimulatedCluster::Death>& deaths = {}) {
    SimulatedCluster cluster;
    cluster.ranks = t.ranks();
    cluster.bandwidth_bytes_per_s = 4.0 * static_cast<double>(t.count) / kAllSeconds;
    cluster.latency_s = 0;
    cluster.patience_s = 20;
    cluster.deaths = deaths;
    ApartOutcome outcome(t.ranks());
    run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
    return outcome;
  }
  static void expect_seconds(const ApartTraining& t, double seconds, double of_a_step) {
    EXPECT_NEAR(seconds / t.steps, of_a_step, 0.01);
  }
};

TEST_F(FedPushInTime, WithoutOverlapAllOfAPushIsWaitedFor) {
  ApartTraining t = of("asp");
  t.memory = Memory::hollow;
  expect_seconds(t, run(t)[0].trained_s, kStepSeconds + 2 * kAllSeconds);
}

// The line is faster than backward: what is left when that ends is the last bucket, and the pull.
TEST_F(FedPushInTime, HidesAllButTheLastBucketOfAsp) {
  ApartTraining t = beside_backward(of("asp"));
  t.memory = Memory::hollow;
  const ApartRecord record = run(t)[0];
  expect_seconds(t, record.trained_s, kStepSeconds + kAllSeconds / 4 + kAllSeconds);
  expect_seconds(t, record.hidden_s, kAllSeconds * 3 / 4);
  EXPECT_EQ(record.exchanged.bytes_sent, t.steps * 4 * t.count);
}

// With s=0 a step waits for the way to the server and back.
TEST_F(FedPushInTime, HidesAllButTheLastBucketOfSsp) {
  ApartTraining t = beside_backward(of("ssp:s=0"));
  t.memory = Memory::hollow;
  const ApartRecord record = run(t)[0];
  expect_seconds(t, record.trained_s, kStepSeconds + kAllSeconds / 4 + kAllSeconds);
  EXPECT_EQ(record.exchanged.bytes_sent, t.steps * 4 * t.count);
}

// The last bucket is pushed and pulled after backward, piece by piece (here one); the others were
// pulled while it ran, and nothing is left to be waited for.
TEST_F(FedPushInTime, HidesAllButTheLastBucketOfAParameterServerWithItsPull) {
  ApartTraining t = beside_backward(of("parameter-server"));
  double took_s = 0, hidden_s = 0;
  SimulatedCluster cluster;
  cluster.bandwidth_bytes_per_s = 4.0 * static_cast<double>(t.count) / kAllSeconds;
  cluster.latency_s = 0;
  run_simulated(cluster, [&](Rank& rank) {
    Crew crew{.rank = rank, .workers = 1, .servers = 1, .collective = all_reduce_named("ring")};
    crew.push_buckets = t.push_buckets;
    ToyReplica replica(nullptr, Memory::hollow, t.count, t.rate);
    const auto strategy = t.make(crew);
    strategy->begin(replica);
    const std::vector<std::size_t> samples{4};
    const auto step_at = [&](std::uint64_t n) { return Step{n, 0, samples}; };
    if (!crew.works()) return strategy->parts().serving->serve(replica, step_at, 0, t.steps);
    t.feeds = true;
    t.memory = Memory::hollow;
    for (int n = 0; n < t.steps; ++n) {
      compute_step(t, 0, step_at(n), *strategy, replica, rank.clock);
      strategy->update(replica, step_at(n));
    }
    took_s = rank.clock.now();
    hidden_s = figures_of(*strategy).hidden_s;
  });
  expect_seconds(t, took_s, kStepSeconds + 2 * kAllSeconds / 4);
  expect_seconds(t, hidden_s, 2 * kAllSeconds * 3 / 4);
}

// Half of its first push has come when it dies: that counts for nothing.
TEST_F(FedPushInTime, GoesOnWithoutAWorkerThatDiedInTheMidstOfAPush) {
  ApartTraining t = of("asp", 3);
  t.count = 12 * 400;
  t.gradient = whole_gradient;
  t = beside_backward(t);
  const ApartOutcome outcome = run(t, {{2, kStepSeconds * 3 / 4}});
  for (const int w : {0, 1}) EXPECT_EQ(std::ssize(outcome[w].after), t.steps);
  ApartTraining without = t;
  without.workers = 2;
  for (std::size_t i = 0; i < t.count; ++i)
    EXPECT_EQ(outcome[0].model[i], static_cast<double>(i % 7) - t.rate * whole_sum(without, i));
}

// Where the line is what workers wait for: a step takes no longer than without overlap (see
// AspOnALine in asp_test.cpp), in four buckets or in one.
class FedPushOnALine : public ::testing::TestWithParam<std::tuple<int, int>> {};
TEST_P(FedPushOnALine, TakesNoLongerThanPushesThatWait) {
  const auto [workers, buckets] = GetParam();
  ApartTraining t = overlapped(apart("asp", workers, 1));
  t.count = 4 * 72'000;
  t.steps = 8;
  t.push_buckets->plan = in_so_many(buckets, t.count);
  t.memory = Memory::hollow;
  t.step_s.assign(workers, 0.05);
  SimulatedCluster cluster;
  cluster.ranks = t.ranks();
  cluster.bandwidth_bytes_per_s = 10 * 4.0 * static_cast<double>(t.count);  // ten vectors a second
  ApartOutcome outcome(t.ranks());
  run_simulated(cluster, [&](Rank& rank) { outcome[rank.rank()] = train_apart(t, rank); });
  const double step_s = std::max(0.05 + 2 * (0.1 + 0.1 / 8), workers * 0.1);
  for (int w = 0; w < workers; ++w) {
    EXPECT_LT(outcome[w].trained_s, 1.02 * t.steps * step_s + workers * 0.1) << w;
    EXPECT_EQ(outcome[w].exchanged.bytes_sent, t.steps * 4 * t.count);
  }
}
INSTANTIATE_TEST_SUITE_P(Workers, FedPushOnALine,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(1, 4)));

// Numbers of pushes that take turns are those of pushes that do not, with several servers too.
TEST_P(FedPushIn, LongPushesTakeTurnsAndNothingIsLost) {
  std::vector<ApartTraining> trainings;
  for (const int servers : {1, 2}) {
    ApartTraining& t = trainings.emplace_back(overlapped(apart("asp", 3, servers)));
    t.count = 12 * 18'000;
    // A bucket's part of a shard is longer than 256 KiB, or shorter.
    t.push_buckets->plan = in_so_many(3, t.count);
    t.steps = 4;
    t.gradient = whole_gradient;
    t.audit = true;
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  for (std::size_t k = 0; k < trainings.size(); ++k) {
    const ApartTraining& t = trainings[k];
    expect_all_got_the_model(t, outcomes[k]);
    for (std::size_t i = 0; i < t.count; i += 9'999)
      EXPECT_EQ(outcomes[k][0].model[i], static_cast<double>(i % 7) - t.rate * whole_sum(t, i));
  }
}

// A plan that was measured goes with the state of the worker.
TEST(FedPushState, KeepsAPlanThatWasMeasured) {
  run_loopback(2, [](Rank& rank) {
    for (const std::string spec : {"parameter-server", "asp", "ssp"}) {
      Crew crew{.rank = rank, .workers = 1, .servers = 1, .collective = all_reduce_named("ring")};
      crew.push_buckets = BucketRule{.overlap = true, .measures_plan = true};
      if (rank.rank() == 1) continue;
      ToyReplica replica(nullptr, Memory::plain, kCount, 0.25f);
      const auto strategy = make_strategy(spec, crew);
      strategy->begin(replica);
      EXPECT_EQ(strategy->state(), "0 7 12 12 12") << spec;
      strategy->restore("9 19 24");
      EXPECT_EQ(strategy->state(), "9 19 24") << spec;
    }
  });
}

}  // namespace
}  // namespace lockstep::testing
