// A push with a memory of its own, in fewer bytes, in every strategy whose workers push gradients
// or changes: what strategies, servers, audit and checkpoints know of a code is enough for one.
#include "strategies/push_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apart_contract.h"
#include "audited_training.h"
#include "top_k.h"

namespace lockstep::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

const World kLoopback{"loopback", run_loopback};
constexpr const char* kApart[] = {"asp", "ssp:s=1", "downpour"};
constexpr CodeBug kBugs[] = {CodeBug::drops_residual, CodeBug::adds_residual_twice,
                             CodeBug::wrong_scale, CodeBug::takes_anothers};

MakePushCode top_k(double ratio, CodeBug bug = CodeBug::none) {
  return [=](const Crew&) { return std::make_unique<TopKCode>(ratio, bug); };
}

ApartTraining pushing(const std::string& spec, MakePushCode codes) {
  ApartTraining t = apart_of(spec);
  t.push_codes = std::move(codes);
  t.gradient = rough_gradient;
  t.audit = true;
  return t;
}

TEST(CompressedPush, PassesTheAuditAndSendsLess) {
  std::vector<ApartTraining> trainings;
  for (const char* spec : kApart)
    for (const double ratio : {0.25, 1.0}) trainings.push_back(pushing(spec, top_k(ratio)));
  const auto outcomes = run_apart_all(simulated_world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2)
    EXPECT_LT(outcomes[i][0].exchanged.bytes_sent, outcomes[i + 1][0].exchanged.bytes_sent / 3)
        << kApart[i / 2];
}

// Zeros need not be sent: with all others the servers have the numbers themselves.
TEST(CompressedPush, OfAllNumbersIsThePushItself) {
  std::vector<ApartTraining> trainings;
  for (const char* spec : kApart) {
    trainings.push_back(pushing(spec, top_k(1)));
    trainings.push_back(pushing(spec, {}));
  }
  const auto outcomes = run_apart_all(simulated_world(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2)
    for (int w = 0; w < 3; ++w) EXPECT_EQ(outcomes[i][w].model, outcomes[i + 1][w].model);
}

// Long pushes wait for their turn and go in two messages.
TEST(CompressedPush, TakesTurns) {
  ApartTraining t = pushing("asp", top_k(1));
  t.count = 200'000;
  t.steps = 4;
  EXPECT_NO_THROW(run_apart(kLoopback, t));
}

class BugOfPush : public ::testing::TestWithParam<std::tuple<const char*, CodeBug>> {};

TEST_P(BugOfPush, IsFoundByTheAudit) {
  const auto [spec, bug] = GetParam();
  EXPECT_THROW(
      run_tampered(simulated_world(), pushing(spec, top_k(0.25, bug)), {[](Tag) { return false; }}),
      AuditError);
}

INSTANTIATE_TEST_SUITE_P(Every, BugOfPush,
                         ::testing::Combine(::testing::ValuesIn(kApart),
                                            ::testing::ValuesIn(kBugs)));

class CompressedPushInStep : public ::testing::TestWithParam<World> {};

TEST_P(CompressedPushInStep, DoesWhatItStatesAndPassesTheAudit) {
  std::vector<Training> trainings;
  for (const bool colocated : {false, true})
    for (const int servers : {1, 3})
      for (const double ratio : {0.25, 1.0}) {
        trainings.push_back(pushing_together(servers, colocated, top_k(ratio)));
        trainings.push_back(with_audit(trainings.back()));
      }
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t i = 0; i < trainings.size(); i += 2) {
    EXPECT_THAT(complaints_about(trainings[i], outcomes[i]), IsEmpty());
    EXPECT_THAT(same_as(outcomes[i], outcomes[i + 1]), IsEmpty());
  }
}

TEST_P(CompressedPushInStep, OfAllNumbersIsOneBigBatch) {
  const Training t = pushing_together(2, false, top_k(1));
  const Outcome outcome = run_all(GetParam(), {t})[0];
  for (int w = 0; w < t.workers; ++w)
    for (int step = 0; step < t.steps; ++step)
      EXPECT_EQ(outcome[w].steps[step].after, one_big_batch(t)[step]);
}

INSTANTIATE_TEST_SUITE_P(Every, CompressedPushInStep, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST(BugOfPushInStep, IsFoundByTheAuditAndByTheContractSuite) {
  for (const CodeBug bug : kBugs) {
    const Training t = pushing_together(2, false, top_k(0.25, bug));
    EXPECT_THROW(run_all(kLoopback, {with_audit(t)}), AuditError) << static_cast<int>(bug);
    EXPECT_THAT(complaints_about(t, run_all(kLoopback, {t})[0]), Not(IsEmpty()))
        << static_cast<int>(bug);
  }
}

}  // namespace
}  // namespace lockstep::testing
