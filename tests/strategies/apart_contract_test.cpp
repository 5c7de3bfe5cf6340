// What strategy.h promises, for every row of the registry whose ranks go apart. (For those that go
// together: strategy_contract_test.cpp.)
#include "apart_contract.h"

#include "strategies/rounds/rounds.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> specs_apart() {
  std::vector<std::string> specs;
  for (const StrategyRow& row : strategies())
    if (row.goes_apart()) specs.emplace_back(row.name);
  for (const char* more : {"ssp:s=0", "easgd:mode=sync", "easgd:period=1,momentum=0.5",
                           "downpour:push=2,fetch=3", "gossip:p=1", "hogwild:updates=plain"})
    specs.emplace_back(more);
  return specs;
}

TEST(ApartContract, ListsEveryStrategyThatGoesApart) {
  for (const StrategyRow& row : strategies())
    EXPECT_EQ(row.goes_apart(), apart_claims().contains(std::string(row.name))) << row.name;
}

class ApartContract : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string& spec() const { return GetParam(); }
};

// By its standard parameters: others are in the strategies' own tests.
class ApartPromises : public ApartContract {};
TEST_P(ApartPromises, AreKept) {
  EXPECT_THAT(
      complaints_apart(spec(), [&](const Crew& crew) { return make_strategy(spec(), crew); }),
      IsEmpty());
}

// Where a step is one batch, a worker's step counts by its samples of it.
TEST_P(ApartPromises, AreKeptOfSamplesOfOneBatch) {
  ApartTraining t = apart_of(spec());
  t.samples = {1, 2, 5};
  t.one_batch = true;
  t.audit = !spec().starts_with("hogwild");
  EXPECT_THAT(every_step_counts_once(t, claims_apart(spec()), run_apart(simulated_world(), t)),
              IsEmpty());
}

TEST_P(ApartContract, OneSeedGivesTheSameBitsTwice) {
  ApartTraining t = apart_of(spec());
  t.momentum = 0.9f;
  t.gradient = rough_gradient;
  const auto outcomes = run_apart_all(simulated_world(), {t, t});
  expect_same_bits(outcomes[0], outcomes[1]);
}

// All but hogwild, which refuses the audit.
class AuditApart : public ApartContract {};
std::vector<std::string> specs_audited() {
  std::vector<std::string> specs = specs_apart();
  std::erase_if(specs, [](const std::string& spec) { return spec.starts_with("hogwild"); });
  return specs;
}

TEST_P(AuditApart, PassesAndChangesNothing) {
  ApartTraining t = apart_of(spec());
  t.count = 1000;
  t.momentum = 0.9f;
  t.gradient = rough_gradient;
  ApartTraining audited = t;
  audited.audit = true;
  const auto outcomes = run_apart_all(simulated_world(), {t, audited});
  for (std::size_t r = 0; r < outcomes[0].size(); ++r) {
    EXPECT_EQ(outcomes[0][r].after, outcomes[1][r].after) << r;
    EXPECT_EQ(outcomes[0][r].rested, outcomes[1][r].rested) << r;
    EXPECT_EQ(outcomes[0][r].model, outcomes[1][r].model) << r;
    if (!spec().starts_with("gossip")) {  // whose masses go with proofs then
      EXPECT_EQ(outcomes[0][r].exchanged.bytes_sent, outcomes[1][r].exchanged.bytes_sent) << r;
    }
    EXPECT_EQ(outcomes[0][r].contributions.count, outcomes[1][r].contributions.count) << r;
  }
}

// Uneven samples, on threads, which go as they go.
TEST_P(AuditApart, PassesOnThreads) {
  ApartTraining t = apart_of(spec());
  t.gradient = rough_gradient;
  t.samples = {4, 0, 8};
  t.audit = true;
  t.steps = 60;
  run_apart({"loopback", run_loopback}, t);
}

// One joins late, and one has samples in every other step.
TEST_P(ApartContract, SamplesMayComeAndGo) {
  ApartTraining t = apart_of(spec());
  t.gradient = rough_gradient;
  t.momentum = 0.9f;
  t.idle = [](int w, std::uint64_t step) {
    return (w == 1 && step < 5) || (w == 2 && step % 2 == 1);
  };
  t.audit = !spec().starts_with("hogwild");
  const auto outcome = run_apart(simulated_world(), t);
  for (int w = 0; w < t.workers; ++w) {
    EXPECT_GT(outcome[w].mass, 0) << w;
    EXPECT_NE(outcome[w].rested, outcome[w].after[0]) << w;
  }
}

TEST_P(ApartContract, HollowSendsTheSameBytes) {
  ApartTraining t = apart_of(spec());
  ApartTraining hollow = t;
  hollow.memory = Memory::hollow;
  const auto outcomes = run_apart_all(simulated_world(), {t, hollow});
  for (std::size_t r = 0; r < outcomes[0].size(); ++r)
    EXPECT_EQ(outcomes[0][r].exchanged, outcomes[1][r].exchanged) << r;
}

// With `mode=sync` easgd goes in step, and stops.
TEST_P(ApartContract, TheOthersGoOnWithoutAWorkerThatIsGone) {
  ApartTraining t = apart_of(spec());
  t.leaves = 2;
  if (spec() == "easgd:mode=sync") {
    EXPECT_THROW(run_apart(simulated_world(), t), TransportError);
    return;
  }
  const auto outcome = run_apart(simulated_world(), t);
  for (const int w : {0, 1}) EXPECT_EQ(outcome[w].after.size(), 20u) << w;
}

std::string spec_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](unsigned char x) { return !std::isalnum(x); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Every, ApartContract, ::testing::ValuesIn(specs_apart()), spec_name);
INSTANTIATE_TEST_SUITE_P(Every, AuditApart, ::testing::ValuesIn(specs_audited()), spec_name);
INSTANTIATE_TEST_SUITE_P(Every, ApartPromises,
                         ::testing::Values("asp", "ssp", "easgd", "downpour", "gossip:p=1",
                                           "hogwild", "ad-psgd"),
                         spec_name);

// The one that goes in rounds.
TEST(RoundContract, EveryResultCountsOnceAndIsWhatTheNextRoundStartsFrom) {
  for (const bool audit : {false, true})
    EXPECT_THAT(complaints_about_rounds(
                    [](const Crew& crew) { return make_strategy("epoch-average", crew); }, audit),
                IsEmpty())
        << audit;
}

TEST(RoundContract, ListsEveryStrategyThatGoesInRounds) {
  for (const StrategyRow& row : strategies())
    EXPECT_EQ(row.goes_in_rounds(), row.name == "epoch-average") << row.name;
}

}  // namespace
}  // namespace lockstep::testing
