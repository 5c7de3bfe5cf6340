#include "strategies/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "transport/fabric.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}
std::string refusal(std::string_view spec, int workers = 2, int servers = 0,
                    bool colocated = false) {
  return refusal([&] { check_strategy(spec, workers, servers, colocated); });
}

TEST(StrategyRegistry, NamesAndAliasesAreUniqueAndEveryRowIsUsable) {
  std::set<std::string_view> names;
  for (const StrategyRow& row : strategies()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.alias.empty() || names.insert(row.alias).second) << row.alias;
    EXPECT_FALSE(row.description.empty());
    for (const StrategyParameter& p : row.parameters) EXPECT_FALSE(p.description.empty()) << p.key;
    check_strategy(row.name, 2, row.has_servers() ? 1 : 0, false);
  }
}

TEST(StrategyRegistry, AliasesOfNamesAndKeysMeanTheSame) {
  EXPECT_EQ(&strategy_named("ar-sgd"), &strategy_named("all-reduce"));
  EXPECT_EQ(full_spec("local-sgd:tau=8"), "local-sgd:period=8,from_epoch=0");
  EXPECT_EQ(full_spec("ar-sgd"), "all-reduce:average=gradients");
  EXPECT_THAT(refusal("local-sgd:tau=8,period=8"), HasSubstr("same parameter"));
}

TEST(StrategyRegistry, WhatIsUnknownIsAnsweredWithWhatIsValid) {
  EXPECT_THAT(refusal("all-reduc"), HasSubstr("did you mean 'all-reduce'?"));
  EXPECT_THAT(refusal("local-sgd:perod=2"), HasSubstr("did you mean 'period'?"));
  EXPECT_THAT(refusal("all-reduce:average=weight"), HasSubstr("did you mean 'weights'?"));
  EXPECT_THAT(refusal("local-sgd:period=0"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("local-sgd:from_epoch=-1"), HasSubstr("at least 0"));
  EXPECT_THAT(refusal("local-sgd:period=often"), HasSubstr("period"));
  EXPECT_THAT(refusal(""), HasSubstr("unknown strategy"));
}

TEST(StrategyRegistry, CrewsThatCannotBeAreRefused) {
  EXPECT_THAT(refusal("all-reduce", 2, 1), HasSubstr("has no servers"));
  EXPECT_THAT(refusal("all-reduce", 0), HasSubstr("at least 1"));
  run_loopback(2, [](Rank& rank) {
    const Crew three{rank, 3, 0, false, all_reduce_named("ring")};
    EXPECT_THAT(refusal([&] { make_strategy("all-reduce", three); }), HasSubstr("2 ranks"));
    const Crew undecided{rank, 2, 0, false, all_reduce_named("auto")};
    EXPECT_THROW(make_strategy("all-reduce", undecided), InternalError);
  });
}

}  // namespace
}  // namespace lockstep
