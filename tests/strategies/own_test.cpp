// A program's own strategies keep the contract of their kind as ours do: those of the examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../examples/pairwise.h"
#include "../../examples/push_pull.h"
#include "apart_contract.h"
#include "contract.h"
#include "rounds/rounds.h"
#include "strategies/add_scaled.h"
#include "strategies/audit/audit.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const World kThreads{"loopback", run_loopback};

MakeOnRank make_own(const StrategyRow& row) {
  return [&row](const Crew& crew) { return make_strategy(row.name, crew, &row); };
}

TEST(OwnInStep, DoesWhatItsFlowsSayAndPassesTheAudit) {
  Training t;
  t.make = make_own(kPairwise);
  t.workers = 4;
  t.samples = even_samples(4);
  Training proved = t;
  proved.make = [](const Crew& crew) {
    return audited(make_strategy("pairwise", crew, &kPairwise), crew);
  };
  const auto outcomes = run_all(kThreads, {t, proved});
  EXPECT_THAT(complaints_about(t, outcomes[0]), IsEmpty());
  EXPECT_THAT(same_as(outcomes[0], outcomes[1]), IsEmpty());
}

TEST(OwnApart, KeepsThePromisesOfItsKind) {
  const ApartTraining t = apart_of(1, make_own(kPushPull));
  EXPECT_THAT(complaints_apart(t, {true, ApartClaims::In::model, true}), IsEmpty());
}

TEST(OwnApart, PassesTheAudit) {
  ApartTraining t = apart_of(1, make_own(kPushPull));
  t.gradient = rough_gradient;
  t.momentum = 0.9f;
  t.audit = true;
  const ApartOutcome outcome = run_apart(simulated_world(), t);
  for (int w = 0; w < t.workers; ++w) EXPECT_EQ(outcome[w].rested, outcome[0].rested) << w;
}

TEST(OwnApart, IsFoundByTheAuditWhereItsNumbersChangeOnTheWay) {
  for (const Purpose purpose : {Purpose::gradients, Purpose::weights})
    EXPECT_THROW(run_tampered(kThreads, apart_of(1, make_own(kPushPull)),
                              {[=](Tag tag) { return tag.purpose == purpose; }}),
                 AuditError);
}

TEST(OwnApart, RefusesWhatItsRowSays) {
  EXPECT_THAT([] { check_strategy("push-pull", {.workers = 3, .servers = 2}, &kPushPull); },
              ThrowsMessage<UsageError>(HasSubstr("one server")));
}

// The smallest strategy in rounds: all results count alike. It proves nothing by itself.
class OwnRounds : public RoundStrategy {
 public:
  using RoundStrategy::RoundStrategy;
  const RoundTerms& terms() const override { return terms_; }
  std::vector<double> factors(std::span<const RoundResult> results) const override {
    return std::vector<double>(results.size(), 1.0 / static_cast<double>(results.size()));
  }

 private:
  void mix(const RoundModel& into, std::span<const RoundResult> results) override {
    double samples = 0;
    for (const RoundResult& result : results) samples += static_cast<double>(result.samples);
    for (const Values& values : {into.weights, into.statistics}) scale(values, 0);
    for (std::size_t k = 0; k < results.size(); ++k) {
      add_scaled(into.weights, factors(results)[k], results[k].model.weights);
      add_scaled(into.statistics, static_cast<double>(results[k].samples) / samples,
                 results[k].model.statistics);
    }
  }

  RoundTerms terms_;
};

TEST(OwnInRounds, MakesEveryResultCountOnceAndPassesTheAudit) {
  const auto make = [](const Crew& crew) { return std::make_unique<OwnRounds>(crew); };
  for (const bool audit : {false, true})
    EXPECT_THAT(complaints_about_rounds(make, audit), IsEmpty()) << audit;
}

// What is proved is not left to it.
TEST(OwnInRounds, IsFoundByTheAuditWhereItIsWrong) {
  struct NeverMixes final : OwnRounds {
    using OwnRounds::OwnRounds;
    void mix(const RoundModel&, std::span<const RoundResult>) override {}
  };
  struct StepsUnseen final : OwnRounds {
    using OwnRounds::OwnRounds;
    void update(Replica& replica, const Step& step) override {
      replica.apply_gradients(step.number);
    }
  };
  const auto never_mixes = [](const Crew& crew) { return std::make_unique<NeverMixes>(crew); };
  const auto steps_unseen = [](const Crew& crew) { return std::make_unique<StepsUnseen>(crew); };
  EXPECT_THAT([&] { complaints_about_rounds(never_mixes, true); },
              ThrowsMessage<AuditError>(HasSubstr("mean of 3 results")));
  EXPECT_THAT([&] { complaints_about_rounds(steps_unseen, true); },
              ThrowsMessage<AuditError>(HasSubstr("the weights changed between two updates")));
}

// Without a statement or proofs there is nothing to hold a strategy to.
TEST(OwnStrategies, MayStateNothingAndThenHaveNoAudit) {
  struct StatesNothing final : Strategy {
    explicit StatesNothing(const Crew& crew) : Strategy(crew) {}
    void update(Replica& replica, const Step& step) override {
      replica.apply_gradients(step.number);
    }
  };
  struct ProvesNothing final : Strategy, Apart {
    explicit ProvesNothing(const Crew& crew) : Strategy(crew, {.apart = this}) {}
    void update(Replica& replica, const Step& step) override {
      replica.apply_gradients(step.number);
    }
    void rest(Replica&) override {}
  };
  run_loopback(1, [](Rank& rank) {
    const Crew crew{rank, 1, 0, false, all_reduce_named("ring")};
    EXPECT_THAT([&] { audited(std::make_unique<StatesNothing>(crew), crew); },
                ThrowsMessage<UsageError>(HasSubstr("states nothing")));
    EXPECT_THAT([&] { audited(std::make_unique<ProvesNothing>(crew), crew); },
                ThrowsMessage<UsageError>(HasSubstr("does not prove its exchanges")));
  });
}

}  // namespace
}  // namespace lockstep::testing
