// Against values from tables of Student's t and intervals worked out by hand.
#include "study/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::study {
namespace {

TEST(StudentT, AgreesWithTheTables) {
  EXPECT_NEAR(student_t_95(1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_95(2), 4.30265, 1e-5);
  EXPECT_NEAR(student_t_95(4), 2.77645, 1e-5);
  EXPECT_NEAR(student_t_95(9), 2.26216, 1e-5);
  EXPECT_NEAR(student_t_95(30), 2.04227, 1e-5);
  EXPECT_NEAR(student_t_95(1000), 1.96234, 1e-5);
}

TEST(Estimate, HasTheIntervalOfStudentsT) {
  const Estimate e = estimate({1, 2, 3});
  EXPECT_DOUBLE_EQ(e.mean, 2);
  EXPECT_EQ(e.n, 3u);
  EXPECT_NEAR(*e.high - 2, 4.30265 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(2 - *e.low, 4.30265 / std::sqrt(3.0), 1e-5);
}

TEST(Estimate, OfOneRunHasNoInterval) {
  const Estimate e = estimate({5});
  EXPECT_EQ(e.mean, 5);
  EXPECT_FALSE(e.low || e.high);
  EXPECT_FALSE(e.excludes(0)) << "one run shows no difference";
}

TEST(Estimate, OfTwoRunsHasNoInterval) {
  const Estimate e = estimate({0.9, 0.9});
  EXPECT_EQ(e.mean, 0.9);
  EXPECT_EQ(e.n, 2u);
  EXPECT_FALSE(e.low || e.high);
  EXPECT_FALSE(e.excludes(0)) << "two runs that agree by chance show nothing";
}

TEST(Estimate, ExcludesOnlyWhatIsOutside) {
  EXPECT_TRUE(estimate({1, 1.01, 0.99}).excludes(0));
  EXPECT_FALSE(estimate({1, -1, 0.5}).excludes(0));
}

TEST(Paired, WhatASeedDoesToBothCancelsOut) {
  const BySeed these = {{1, 0.91}, {2, 0.81}, {3, 0.71}}, others = {{1, 0.9}, {2, 0.8}, {3, 0.7}};
  const Estimate e = *paired_difference(these, others);
  EXPECT_NEAR(e.mean, 0.01, 1e-12);
  EXPECT_TRUE(e.excludes(0));
  EXPECT_EQ(e.n, 3u);
}

TEST(Paired, OnlySeedsThatBothHaveCount) {
  EXPECT_EQ(paired_difference({{1, 1.0}, {2, 5.0}}, {{2, 4.0}, {3, 0.0}})->n, 1u);
  EXPECT_FALSE(paired_difference({{1, 1.0}}, {{2, 4.0}}));
}

TEST(Paired, RatiosAreMeansOfLogarithms) {
  const Estimate e = *paired_ratio({{1, 2.0}, {2, 8.0}, {3, 4.0}}, {{1, 1.0}, {2, 1.0}, {3, 1.0}});
  EXPECT_NEAR(e.mean, 4, 1e-12);
  EXPECT_NEAR(*e.low * *e.high, 16, 1e-6) << "the interval lies evenly on a scale of ratios";
}

TEST(Paired, NothingIsSaidOfRatiosToZero) {
  EXPECT_FALSE(paired_ratio({{1, 2.0}}, {{1, 0.0}}));
  EXPECT_FALSE(paired_ratio({{1, 0.0}}, {{1, 0.0}}));
}

}  // namespace
}  // namespace lockstep::study
