// A mean with a memory of its own, in fewer bytes and beside backward, in every strategy that
// averages: what strategies, audit and checkpoints know of a mean is enough for one.
#include "strategies/mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audited_training.h"
#include "contract.h"
#include "strategies/audit/audit.h"
#include "strategies/servers/central_cases.h"
#include "top_k.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kSpecs[] = {"all-reduce", "all-reduce:average=weights", "local-sgd:period=2",
                                  "slow-mo:period=2", "diloco:period=2"};

MakeMean top_k(double ratio, CodeBug bug = CodeBug::none) {
  return [=](const Crew& crew, Purpose of) {
    return std::make_unique<TopKMean>(crew, of, ratio, bug);
  };
}

Training with(std::string spec, MakeMean means) {
  Training t;
  t.make = [spec = std::move(spec)](const Crew& crew) { return make_strategy(spec, crew); };
  t.means = std::move(means);
  t.workers = 3;
  t.samples = {4, 2, 6};
  t.steps = 5;
  t.count = 40;  // three layers
  t.feeds = true;
  return t;
}

class CompressedMean : public ::testing::TestWithParam<World> {};

TEST_P(CompressedMean, DoesWhatItStatesAndPassesTheAudit) {
  std::vector<Training> trainings;
  for (const char* spec : kSpecs) {
    trainings.push_back(with(spec, top_k(0.25)));
    trainings.push_back(with_audit(trainings.back()));
  }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty()) << kSpecs[i / 2];
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty()) << kSpecs[i / 2];
  }
}

// The residual is not always zero, or nothing above is proved.
TEST_P(CompressedMean, KeepsWhatItDoesNotSend) {
  const auto outcomes = run_all(GetParam(), {with("all-reduce", top_k(0.25))});
  for (const Record& record : outcomes[0])
    EXPECT_THAT(record.steps.back().memories.at(0).after, ::testing::Contains(Not(0.f)));
}

TEST_P(CompressedMean, OfAllNumbersIsTheExactMean) {
  const auto outcomes = run_all(GetParam(), {with("all-reduce", top_k(1)), with("all-reduce", {})});
  EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty());
}

TEST_P(CompressedMean, GivesTheSameBitsOnAllWorkersFedOrNot) {
  Training fed = with("all-reduce", top_k(0.5)), unfed = fed;
  fed.whole_numbers = unfed.whole_numbers = false;
  unfed.feeds = false;
  const auto outcomes = run_all(GetParam(), {fed, unfed});
  EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty());
  for (const Record& record : outcomes[0])
    for (std::size_t t = 0; t < record.steps.size(); ++t)
      EXPECT_TRUE(same_bits(record.steps[t].after, outcomes[0][0].steps[t].after));
}

INSTANTIATE_TEST_SUITE_P(Every, CompressedMean, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST(CompressedMeanWithoutNumbers, SendsAsManyBytesAsItPromises) {
  Training t = with("all-reduce", top_k(0.25));
  t.memory = Memory::hollow;
  const auto outcomes = run_all(simulated_world(), {t});
  EXPECT_THAT(bytes_are_as_promised(t, outcomes[0]), IsEmpty());
  EXPECT_GT(outcomes[0][0].steps[0].sent, 0);
}

using BugOfMean = ::testing::TestWithParam<std::tuple<const char*, CodeBug>>;

TEST_P(BugOfMean, IsFoundByTheAuditAndByTheContractSuite) {
  const auto [spec, bug] = GetParam();
  const World loopback{"loopback", run_loopback};
  const Training t = with(spec, top_k(0.25, bug));
  EXPECT_THROW(run_all(loopback, {with_audit(t)}), AuditError);
  EXPECT_THAT(complaints_about(t, run_all(loopback, {t})[0]), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(
    Every, BugOfMean,
    ::testing::Combine(::testing::ValuesIn(kSpecs),
                       ::testing::Values(CodeBug::drops_residual, CodeBug::adds_residual_twice,
                                         CodeBug::wrong_scale, CodeBug::takes_anothers)));

// A strategy that is made anew in the middle of a run goes on with what the old one kept.
TEST(MeanInACheckpoint, GoesOnWithItsMemories) {
  for (const std::string spec : kSpecs) {
    std::vector<Floats> straight(2), resumed(2);
    for (const bool resumes : {false, true})
      run_loopback(2, [&](Rank& rank) {
        const Crew crew{.rank = rank,
                        .workers = 2,
                        .collective = all_reduce_named("ring"),
                        .means = top_k(0.25)};
        ToyReplica replica(nullptr, Memory::plain, 30, 0.25f);
        auto strategy = make_strategy(spec, crew);
        strategy->begin(replica);
        const std::vector<std::size_t> samples{3, 1};
        for (std::uint64_t t = 0; t < 8; ++t) {
          if (resumes && t == 3) {
            std::vector<Floats> kept;
            for (const Kept& memory : strategy->memories()) kept.push_back(copy_of(memory.values));
            const std::string state = strategy->state();
            strategy = make_strategy(spec, crew);
            strategy->begin(replica);
            for (std::size_t k = 0; k < kept.size(); ++k)
              copy(strategy->memories().at(k).values.bytes(),
                   {kept[k].data(), kept[k].size() * sizeof(float)});
            strategy->restore(state);
            EXPECT_EQ(strategy->state(), state);
          }
          for (std::size_t i = 0; i < 30; ++i)
            replica.gradient_span()[i] =
                std::sin(static_cast<float>(rank.rank() + 1) * static_cast<float>(i * t));
          strategy->update(replica, {t, 0, samples});
        }
        (resumes ? resumed : straight)[rank.rank()] = copy_of(replica.weight_span());
      });
    EXPECT_TRUE(same_bits(straight[0], resumed[0])) << spec;
    EXPECT_TRUE(same_bits(straight[1], resumed[1])) << spec;
  }
}

// By its own size and place: shared memory where the numbers lie in a window, else a table.
TEST(ExactMean, ChoosesItsCollectiveForEachExchange) {
  run_shm(2, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 2, .collective = all_reduce_named("auto")};
    for (const Memory memory : {Memory::window, Memory::plain}) {
      const std::size_t count = 1000;
      ToyReplica replica(&rank.peers, memory, count, 0.5f);
      const auto mean = make_mean(crew, Purpose::gradients);
      mean->begin(replica.gradients(), replica.parameters());
      const std::string_view name = memory == Memory::window ? "shared" : "butterfly";
      EXPECT_EQ(mean->bytes_sent(rank.rank(), count),
                size_of(Type::fp32) *
                    all_reduce_named(name).sent(count, place_of(rank.peers), rank.rank()));
      std::ranges::fill(replica.gradient_span(), static_cast<float>(rank.rank()));
      const std::vector<std::size_t> samples{1, 3};
      mean->run({0, 0, samples}, samples);
      EXPECT_EQ(replica.gradient_span()[count - 1], 0.75f);
    }
  });
}

TEST(ExactMean, IsToldItsNumbersFirst) {
  run_loopback(1, [](Rank& rank) {
    const Crew crew{.rank = rank, .workers = 1, .collective = all_reduce_named("ring")};
    const std::vector<std::size_t> samples{1};
    EXPECT_THROW(make_mean(crew, Purpose::weights)->run({0, 0, samples}, samples), InternalError);
  });
}

}  // namespace
}  // namespace lockstep::testing
