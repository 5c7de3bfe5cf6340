// A program's own strategies keep the contract of their kind as ours do: those of the examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../examples/pairwise.h"
#include "../../examples/push_pull.h"
#include "apart_contract.h"
#include "contract.h"
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
