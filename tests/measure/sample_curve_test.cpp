#include "measure/sample_curve.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::testing {
namespace {

// A worker whose steps of `samples` each take so long.
SampleCurve at_pace(int steps, double step_s, std::uint64_t samples = 10) {
  SampleCurve curve;
  for (int i = 1; i <= steps; ++i) curve.add(samples, i * step_s);
  return curve;
}

TEST(SteadyRate, LeavesOutTheStartAndTheTail) {
  // The slow one has had the first tenth of its steps after 20 s, the fast one its last after 100.
  const std::vector<SampleCurve> workers{at_pace(100, 1), at_pace(100, 2)};
  const auto rate = steady_rate(workers);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->from_s, 20);
  EXPECT_DOUBLE_EQ(rate->to_s, 100);
  EXPECT_DOUBLE_EQ(rate->samples_per_second, 15);
  EXPECT_DOUBLE_EQ(rate->steps, (80 + 40) / 2.0);
}

TEST(SteadyRate, CountsAStepThatTheWindowCuts) {
  const std::vector<SampleCurve> workers{at_pace(10, 1), at_pace(7, 1.5)};
  EXPECT_NEAR(steady_rate(workers)->samples_per_second, 10 + 10 / 1.5, 1e-12);
}

TEST(SteadyRate, IsNoneWithoutAWindow) {
  EXPECT_FALSE(steady_rate({}));
  const std::vector<SampleCurve> one_step{at_pace(1, 1)};
  EXPECT_FALSE(steady_rate(one_step));
  // The fast one is done before the slow one has begun.
  const std::vector<SampleCurve> never_both{at_pace(100, 1), at_pace(100, 20)};
  EXPECT_FALSE(steady_rate(never_both));
}

TEST(SteadyRate, DoesWithoutWorkersThatHaveNoSamples) {
  const std::vector<SampleCurve> workers{at_pace(100, 1), at_pace(100, 1e-3, 0)};
  EXPECT_DOUBLE_EQ(steady_rate(workers)->samples_per_second, 10);
}

TEST(SampleCurve, OfALongRunStaysSmallAndTrue) {
  const SampleCurve curve = at_pace(100'000, 0.25);
  EXPECT_LT(curve.numbers().size(), 3 * 4096 + 2);
  EXPECT_EQ(curve.steps(), 100'000);
  EXPECT_DOUBLE_EQ(curve.last_s(), 25'000);
  EXPECT_NEAR(curve.samples_at(1234.5), 49'380, 1e-6);
  EXPECT_NEAR(curve.seconds_at(33'333), 33'333 * 0.25, 1e-6);
}

TEST(SampleCurve, SurvivesAsNumbers) {
  SampleCurve whole = at_pace(5000, 0.25);
  SampleCurve again = SampleCurve::from(whole.numbers());
  EXPECT_EQ(again.numbers(), whole.numbers());
  whole.add(3, 1300);
  again.add(3, 1300);
  EXPECT_EQ(again.numbers(), whole.numbers());
  EXPECT_THROW(SampleCurve::from(std::vector<double>{1, 2}), UsageError);
}

}  // namespace
}  // namespace lockstep::testing
