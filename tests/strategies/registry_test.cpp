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
  return refusal([&] { check_strategy(spec, {workers, servers, colocated}); });
}

TEST(StrategyRegistry, NamesAndAliasesAreUniqueAndEveryRowIsUsable) {
  std::set<std::string_view> names;
  for (const StrategyRow& row : strategies()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.alias.empty() || names.insert(row.alias).second) << row.alias;
    EXPECT_FALSE(row.description.empty());
    for (const StrategyParameter& p : row.parameters) EXPECT_FALSE(p.description.empty()) << p.key;
    check_strategy(row.name, {2, row.has_servers() ? 1 : 0});
  }
}

// What the training loop and the audit rely on.
TEST(StrategyRegistry, EveryStrategyHasThePartsOfItsKind) {
  for (const StrategyRow& row : strategies()) {
    const int servers = row.has_servers() ? 1 : 0;
    run_loopback(1 + servers, [&](Rank& rank) {
      const Crew crew{rank, 1, servers, false, all_reduce_named("ring")};
      const auto strategy = make_strategy(row.name, crew);
      const StrategyParts& parts = strategy->parts();
      EXPECT_EQ(strategy->pace(), row.pace) << row.name;
      EXPECT_EQ(parts.statement != nullptr, row.pace == Pace::together) << row.name;
      EXPECT_EQ(parts.serving != nullptr, row.has_servers() && !row.goes_in_rounds()) << row.name;
      // Of those in step it says what their means came to, where they have some.
      EXPECT_TRUE(parts.measured != nullptr || row.pace == Pace::together) << row.name;
      EXPECT_EQ(parts.proofs != nullptr, row.pace != Pace::together && row.name != "hogwild")
          << row.name;
      EXPECT_EQ(parts.audit, nullptr) << row.name;
    });
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
  });
}

// What a strategy refuses of a run, and what it has to tell of one, is its own.
TEST(StrategyRegistry, StrategiesRefuseWhatTheyCanNotDo) {
  const auto refused = [](std::string_view spec, const RunTerms& run) {
    return refusal([&] { check_strategy(spec, run); });
  };
  RunTerms run{.workers = 2, .servers = 1, .optimizer = "adam", .plain_sgd = false};
  EXPECT_THAT(refused("easgd:momentum=0.5", run), HasSubstr("--optimizer adam"));
  EXPECT_EQ(refused("easgd", run), "accepted");
  run.plain_sgd = true;
  EXPECT_EQ(refused("easgd:momentum=0.5", run), "accepted");

  run = {.workers = 2, .servers = 2, .optimizer = "lars:lr=1", .needs_whole_layers = true};
  EXPECT_THAT(refused("asp", run), HasSubstr("--optimizer lars needs whole layers"));
  EXPECT_EQ(refused("ssp", run), "accepted");

  EXPECT_THAT(refused("hogwild", {.audit = true}), HasSubstr("--audit"));
  EXPECT_THAT(refused("hogwild", {.transport = "ucx"}), HasSubstr("--transport ucx"));
  EXPECT_THAT(refused("hogwild", {.shaped = true}), HasSubstr("--shape"));
  EXPECT_EQ(refused("hogwild", {}), "accepted");
  EXPECT_EQ(refused("gossip", {.audit = true, .transport = "ucx", .shaped = true}), "accepted");

  run = {.workers = 2, .servers = 1, .hollow = true};
  EXPECT_THAT(refused("epoch-average:exchange=files", run), HasSubstr("exchange=messages"));
  EXPECT_EQ(refused("epoch-average", run), "accepted");
}

TEST(StrategyRegistry, StrategiesTellOfRunsThatAreTooShortForThem) {
  const auto told = [](std::string_view spec, int servers, std::uint64_t steps, int workers = 2) {
    return notice_of_strategy(spec, {.workers = workers, .servers = servers, .steps = steps})
        .value_or("nothing");
  };
  EXPECT_THAT(told("local-sgd:period=8", 0, 7), HasSubstr("every 8 steps, and this run has 7"));
  EXPECT_EQ(told("local-sgd:period=8", 0, 8), "nothing");
  EXPECT_EQ(told("local-sgd:period=8,from_epoch=1", 0, 7), "nothing");
  EXPECT_EQ(told("local-sgd:period=8", 0, 7, 1), "nothing");  // with whom
  for (const char* spec : {"slow-mo:period=8", "diloco:period=8"})
    EXPECT_THAT(told(spec, 0, 7), HasSubstr("give a smaller period")) << spec;
  EXPECT_THAT(told("easgd:period=8", 1, 7, 1), HasSubstr("never exchange anything"));
  EXPECT_THAT(told("downpour:push=8", 1, 7), HasSubstr("push nothing before it is over"));
  EXPECT_EQ(told("all-reduce", 0, 1), "nothing");
}

class OwnInStep final : public Strategy {
 public:
  using Strategy::Strategy;
  void update(Replica&, const Step&) override {}
};

constexpr StrategyParameter kOwnParameters[] = {{"rate", "3", "of something", ""}};

StrategyRow own_row() {
  return {.name = "own",
          .exchange = Exchange::holding_servers,
          .pace = Pace::apart,
          .parameters = kOwnParameters,
          .maker = [](const Options& options) -> StrategyMaker {
            if (options.integer("rate") < 1) throw UsageError("rate is too low");
            return {[](const Crew& crew) { return std::make_unique<OwnInStep>(crew); }};
          }};
}

TEST(StrategyRegistry, ARowOfOnesOwnIsOneMoreRow) {
  const StrategyRow own = own_row();
  EXPECT_EQ(&strategy_named("own:rate=4", &own), &own);
  EXPECT_EQ(&strategy_named("asp", &own), &strategy_named("asp"));
  EXPECT_EQ(full_spec("own", &own), "own:rate=3");
  EXPECT_THAT(refusal([&] { check_strategy("own", {2, 0}, &own); }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([&] { check_strategy("own:rate=0", {2, 1}, &own); }), HasSubstr("too low"));
  EXPECT_EQ(refusal([&] { check_strategy("own", {2, 1}, &own); }), "accepted");
  EXPECT_THAT(refusal([&] { strategy_named("onw", &own); }), HasSubstr("did you mean 'own'?"));
}

TEST(StrategyRegistry, AStrategyKeepsThePaceOfItsRow) {
  run_loopback(2, [](Rank& rank) {
    const StrategyRow own = own_row();  // apart, which OwnInStep does not go
    const Crew crew{rank, 1, 1, false, all_reduce_named("ring")};
    EXPECT_THROW(make_strategy("own", crew, &own), InternalError);
  });
}

}  // namespace
}  // namespace lockstep
