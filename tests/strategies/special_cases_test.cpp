// Strategies that are each other's special cases are so to the bit, on real numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contract.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

Training of(const std::string& spec, const std::string& collective = "ring") {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.collective = collective;
  t.workers = 4;
  t.samples = uneven_samples(4);
  t.whole_numbers = false;
  t.momentum = 0.9f;
  t.memory = Memory::window;
  t.count = 203;
  t.steps = 5;
  return t;
}
Training servers(int number, bool colocated) {
  Training t = of("parameter-server");
  t.servers = number;
  t.colocated = colocated;
  return t;
}

// Servers' own ranks are not compared.
Outcome workers_of(Outcome outcome) {
  outcome.resize(4);
  return outcome;
}

class SpecialCases : public ::testing::TestWithParam<World> {
 protected:
  Complaints differences(const Training& a, const Training& b) {
    const auto outcomes = run_all(GetParam(), {a, b});
    return same_as(workers_of(outcomes[0]), workers_of(outcomes[1]));
  }
};

TEST_P(SpecialCases, LocalSgdOfPeriodOneAveragesWeights) {
  EXPECT_THAT(differences(of("local-sgd:period=1"), of("all-reduce:average=weights")), IsEmpty());
}

TEST_P(SpecialCases, ColocatedShardsAreRoundRobin) {
  EXPECT_THAT(differences(servers(4, true), of("all-reduce", "round-robin")), IsEmpty());
}

TEST_P(SpecialCases, SharedSumsAsColocatedShards) {
  EXPECT_THAT(differences(servers(4, true), of("all-reduce", "shared")), IsEmpty());
}

TEST_P(SpecialCases, ADedicatedServerIsMasterAndWorkers) {
  EXPECT_THAT(differences(servers(1, false), of("all-reduce", "master-worker")), IsEmpty());
}

TEST_P(SpecialCases, TheNumberOfDedicatedServersDoesNotMatter) {
  EXPECT_THAT(differences(servers(1, false), servers(3, false)), IsEmpty());
}

TEST_P(SpecialCases, StepWiseWithBothPassesIsTheRing) {
  const Training ring = of("all-reduce:average=weights");
  EXPECT_THAT(differences(of("step-wise:start=fixed,full_pass=1"), ring), IsEmpty());
}

TEST_P(SpecialCases, ATokenWithBothPassesIsTheUnchunkedRing) {
  const Training ring = of("all-reduce:average=weights", "ring-reduce");
  EXPECT_THAT(differences(of("step-wise:form=token,start=fixed,full_pass=1"), ring), IsEmpty());
}

TEST_P(SpecialCases, PostLocalSgdAveragesAlwaysUntilItsEpoch) {
  Training early = of("local-sgd:period=100,from_epoch=1"), always = of("local-sgd:period=1");
  early.steps = always.steps = 2;  // epoch 0
  const auto outcomes = run_all(GetParam(), {early, always, of("local-sgd:period=100,from_epoch=1"),
                                             of("local-sgd:period=1")});
  EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty());
  EXPECT_THAT(same_as(outcomes[2], outcomes[3]), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Every, SpecialCases, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST(LocalSgd, MovesTheBytesOfStepWiseAtPeriodTwo) {
  run_loopback(4, [](Rank& rank) {
    const Crew crew{rank, 4, 0, false, all_reduce_named("ring")};
    const auto local = make_strategy("local-sgd:period=2", crew);
    const auto step_wise = make_strategy("step-wise", crew);
    const auto samples = even_samples(4);
    const auto two_steps = [&](Strategy& s) {
      return s.parts().statement->bytes_sent({0, 0, samples}, rank.rank(), 400) +
             s.parts().statement->bytes_sent({1, 0, samples}, rank.rank(), 400);
    };
    EXPECT_EQ(two_steps(*local), two_steps(*step_wise));
  });
}

// The weights of the average are the samples since the last one, through a checkpoint too.
TEST(LocalSgd, CountsSamplesSinceTheLastAverage) {
  run_loopback(2, [](Rank& rank) {
    const Crew crew{rank, 2, 0, false, all_reduce_named("ring")};
    auto strategy = make_strategy("local-sgd:period=3", crew);
    ToyReplica replica(nullptr, Memory::plain, 1, 0.5f);
    strategy->begin(replica);
    const std::vector<std::size_t> by_step[] = {{2, 0}, {1, 1}, {3, 1}, {5, 5}, {0, 4}, {1, 1}};
    const double first_shares[] = {0, 0, 6.0 / 8, 0, 0, 6.0 / 16};
    for (std::uint64_t t = 0; t < 6; ++t) {
      const Step step{t, 0, by_step[t]};
      const auto flow = strategy->parts().statement->flows(step, 0, 1).at(0);
      const bool averages = t % 3 == 2;
      EXPECT_DOUBLE_EQ(flow.weights[0], averages ? first_shares[t] : 1) << t;
      replica.weight_span()[0] = static_cast<float>(8 * rank.rank());
      replica.gradient_span()[0] = 0;
      strategy->update(replica, step);
      const double expected = averages ? 8 * (1 - first_shares[t]) : 8 * rank.rank();
      EXPECT_EQ(replica.weight_span()[0], static_cast<float>(expected)) << t;
      EXPECT_EQ(strategy->parts().statement->flows(step, 0, 1).at(0).weights, flow.weights)
          << "after step " << t;
      const std::string state = strategy->state();
      strategy = make_strategy("local-sgd:period=3", crew);
      strategy->begin(replica);
      strategy->restore(state);
    }
    EXPECT_THROW(strategy->restore("1 0 7"), UsageError);
  });
}

}  // namespace
}  // namespace lockstep::testing
