// What strategy.h promises, for every row of the registry, with several parameters, over loopback,
// shared memory and simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cases.h"
#include "contract.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

class StrategyContract : public ::testing::TestWithParam<std::tuple<World, Case>> {
 protected:
  const World& world() const { return std::get<0>(GetParam()); }
  Training training(int workers, std::vector<std::size_t> samples) const {
    return std::get<1>(GetParam()).training(workers, std::move(samples));
  }
};

class InEveryWorld : public StrategyContract {};
TEST_P(InEveryWorld, DoesWhatItsFlowsSayAndSendsWhatItPromises) {
  std::vector<Training> trainings;
  for (int m = 1; m <= 5; ++m)
    for (const bool even : {true, false})
      for (const std::size_t count : {3, 23}) {
        trainings.push_back(training(m, even ? even_samples(m) : uneven_samples(m)));
        trainings.back().count = count;
        if (!even) trainings.back().memory = Memory::window;
      }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); ++i)
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty())
        << trainings[i].workers << " workers, samples "
        << fmt::format("{}", fmt::join(trainings[i].samples, ","));
}

TEST_P(StrategyContract, OneSeedGivesTheSameBitsTwice) {
  Training t = training(4, uneven_samples(4));
  t.whole_numbers = false;
  t.momentum = 0.9f;
  t.steps = 6;
  const auto outcomes = run_all(world(), {t, t});
  EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty());
  EXPECT_THAT(bytes_are_as_promised(t, outcomes[0]), IsEmpty());
}

// The rank leaves after its first step. Whoever notices names it, and nobody hangs.
TEST_P(StrategyContract, AWorkerThatIsGoneIsNamed) {
  Training t = training(4, even_samples(4));
  t.leaves = 2;
  t.steps = 12;
  FabricOptions options;
  options.patience_seconds = 20;
  try {
    run_all(world(), {t}, options);
    FAIL() << "nobody noticed";
  } catch (const TransportError& e) {
    EXPECT_EQ(e.peer(), 2) << e.what();
    EXPECT_NE(e.kind(), TransportError::Kind::deadline) << e.what();
  }
}

class OnThreads : public StrategyContract {};
TEST_P(OnThreads, OneWorkerIsPlainSgdBitForBit) {
  Training t = training(1, {5});
  t.whole_numbers = false;
  t.momentum = 0.9f;
  t.steps = 5;
  const auto outcomes = run_all(world(), {t});
  const auto alone = one_big_batch(t);
  // Those that need not say so mix in what the one worker had before, or what they keep.
  bool is_plain = true;
  for (int step = 0; step < t.steps; ++step) {
    is_plain = is_plain && is_exact(t, outcomes[0], step);
    EXPECT_TRUE(is_plain || !t.claims.plain_alone) << step << ": it no longer says that it is";
    EXPECT_TRUE(!is_plain || same_bits(outcomes[0][0].steps[step].after, alone[step])) << step;
    const bool apart = t.servers > 0 && !t.colocated;
    EXPECT_EQ(outcomes[0][0].steps[step].sent, apart ? t.count * sizeof(float) : 0u);
  }
}

class InSharedMemory : public StrategyContract {};
TEST_P(InSharedMemory, LongVectorsGoInPieces) {
  Training t = training(3, uneven_samples(3));
  t.count = 530'011;
  t.steps = 2;
  t.memory = Memory::window;
  const auto outcomes = run_all(world(), {t});
  EXPECT_THAT(complaints_about(t, outcomes[0]), IsEmpty());
}

class Hollow : public StrategyContract {};
TEST_P(Hollow, SendsTheSameBytes) {
  std::vector<Training> trainings;
  for (const int m : {1, 3, 5}) {
    trainings.push_back(training(m, uneven_samples(m)));
    trainings.back().memory = Memory::hollow;
    trainings.back().count = 1'000'003;
    trainings.back().serve_at_once = true;
  }
  const auto outcomes = run_all(world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); ++i)
    EXPECT_THAT(bytes_are_as_promised(trainings[i], outcomes[i]), IsEmpty());
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<World, Case>>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name();
}

std::vector<std::tuple<World, Case>> over(std::string_view names, bool with_shared = true) {
  std::vector<std::tuple<World, Case>> all;
  for (const World& world : strategy_worlds())
    for (const Case& c : strategy_cases())
      if (names.find(world.name) != names.npos && (with_shared || c.collective != "shared"))
        all.emplace_back(world, c);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, InEveryWorld, ::testing::ValuesIn(over("loopback shm simulated")),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Every, StrategyContract, ::testing::ValuesIn(over("shm simulated")),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Every, OnThreads, ::testing::ValuesIn(over("loopback")), test_name);
INSTANTIATE_TEST_SUITE_P(Every, InSharedMemory, ::testing::ValuesIn(over("shm")), test_name);
INSTANTIATE_TEST_SUITE_P(Every, Hollow, ::testing::ValuesIn(over("simulated", false)), test_name);

}  // namespace
}  // namespace lockstep::testing
