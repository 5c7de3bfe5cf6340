// Every bug of mutants.cmake is found by the audit, and by the contract suites without it.
#include "strategies/mutants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apart_contract.h"
#include "cases.h"
#include "strategies/audit/audit.h"
#include "strategies/rounds/rounds.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

const World kLoopback{"loopback", run_loopback};

Training training_of(const std::string& spec, MakeOnRank make) {
  Training t;
  t.make = std::move(make);
  t.claims = claims_of(spec);
  t.workers = 3;
  t.servers = strategy_named(spec).has_servers() ? 2 : 0;
  t.samples = {4, 2, 6};
  t.steps = 5;  // the last of which ends no round
  return t;
}

Training audited_one(Training t) {
  t.make = [make = t.make](const Crew& crew) { return audited(make(crew), crew); };
  return t;
}

std::vector<Mutant> of_pace(Pace pace) {
  std::vector<Mutant> some;
  for (const Mutant& mutant : mutants())
    if (strategy_named(mutant.spec).pace == pace) some.push_back(mutant);
  return some;
}

// Hogwild refuses the audit: its bugs are for the contract suite alone. The contract suite does not
// see gossip's masses, nor what easgd does beside its centre: those are for the audit.
std::vector<Mutant> apart(bool hogwild) {
  std::vector<Mutant> some = of_pace(Pace::apart);
  std::erase_if(some, [&](const Mutant& mutant) { return (mutant.spec == "hogwild") != hogwild; });
  return some;
}

std::string name_of_mutant(const ::testing::TestParamInfo<Mutant>& info) {
  std::string name = info.param.spec + "_" + info.param.bug;
  std::ranges::replace_if(
      name, [](unsigned char x) { return !std::isalnum(x); }, '_');
  return name;
}

class BugTogether : public ::testing::TestWithParam<Mutant> {
 protected:
  Training training() const {
    return training_of(GetParam().spec, [&](const Crew& crew) { return GetParam().make(crew); });
  }
};

TEST_P(BugTogether, IsFoundByTheAudit) {
  EXPECT_THROW(run_all(kLoopback, {audited_one(training())}), AuditError);
}

TEST_P(BugTogether, IsFoundByTheContractSuite) {
  const Training t = training();
  EXPECT_THAT(complaints_about(t, run_all(kLoopback, {t})[0]), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Every, BugTogether, ::testing::ValuesIn(of_pace(Pace::together)),
                         name_of_mutant);

class BugApart : public ::testing::TestWithParam<Mutant> {
 protected:
  MakeOnRank make() const {
    return [&](const Crew& crew) { return GetParam().make(crew); };
  }
};

TEST_P(BugApart, IsFoundByTheAudit) {
  const ApartTraining t = apart_of(GetParam().spec, make());
  EXPECT_THROW(run_tampered(simulated_world(), t, {[](Tag) { return false; }}), AuditError);
}

using BugOfHogwild = BugApart;

TEST_P(BugOfHogwild, IsFoundByTheContractSuite) {
  EXPECT_THAT(complaints_apart(GetParam().spec, make()), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Every, BugApart, ::testing::ValuesIn(apart(false)), name_of_mutant);
INSTANTIATE_TEST_SUITE_P(Every, BugOfHogwild, ::testing::ValuesIn(apart(true)), name_of_mutant);

class BugInRounds : public ::testing::TestWithParam<Mutant> {};

TEST_P(BugInRounds, IsFoundByTheAudit) {
  EXPECT_THROW(
      complaints_about_rounds([&](const Crew& crew) { return GetParam().make(crew); }, true),
      AuditError);
}

TEST_P(BugInRounds, IsFoundByTheContractSuite) {
  EXPECT_THAT(
      complaints_about_rounds([&](const Crew& crew) { return GetParam().make(crew); }, false),
      Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Every, BugInRounds, ::testing::ValuesIn(of_pace(Pace::rounds)),
                         name_of_mutant);

// Else what is found need not be the bug.
TEST(Bugs, AreAllThatIsWrong) {
  for (const Mutant& mutant : of_pace(Pace::together)) {
    const Training t = training_of(
        mutant.spec, [&](const Crew& crew) { return make_strategy(mutant.spec, crew); });
    const auto outcomes = run_all(kLoopback, {t, audited_one(t)});
    EXPECT_THAT(complaints_about(t, outcomes[0]), IsEmpty()) << mutant.spec;
    EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty()) << mutant.spec;
  }
}

TEST(Bugs, ArePlantedInEveryStrategy) {
  for (const StrategyRow& row : strategies())
    EXPECT_TRUE(std::ranges::any_of(mutants(), [&](const Mutant& mutant) {
      return strategy_named(mutant.spec).name == row.name;
    })) << row.name;
}

}  // namespace
}  // namespace lockstep::testing
