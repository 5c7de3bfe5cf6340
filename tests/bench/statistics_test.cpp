#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Statistics, PercentileInterpolatesBetweenNeighbours) {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(percentile(hundred, 99), 99.01);
  EXPECT_DOUBLE_EQ(percentile(hundred, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(hundred, 100), 100);
}

TEST(Statistics, SpreadHasMiddleAndExtremes) {
  const std::vector<double> values{5, 9, 1};
  const Spread s = spread(values);
  EXPECT_DOUBLE_EQ(s.median, 5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 9);
}

TEST(Statistics, RatioIsTakenRepeatByRepeat) {
  // The second repeat hit a busy moment: both took ten times as long, and the ratio does not show
  // it.
  const std::vector<double> theirs{60, 600, 66}, ours{10, 100, 12};
  const Spread r = ratio(theirs, ours);
  EXPECT_DOUBLE_EQ(r.median, 6);
  EXPECT_DOUBLE_EQ(r.min, 5.5);
  EXPECT_DOUBLE_EQ(r.max, 6);
}

TEST(Statistics, BandwidthIsInUnitsOfTenToTheNine) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second(1e9, 1e6), 1);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(4096, 0), 0);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(2), 1);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(1), 0);
}

}  // namespace
}  // namespace lockstep::bench
