// What compressors that draw say of means over their draws. Seeds are fixed, so a test passes
// always or never; its confidence says how likely another seed would have failed with a right
// compressor.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "specs.h"

namespace lockstep {
namespace {

constexpr int kDraws = 4000;

struct Moments {
  std::vector<double> mean, variance;  // by number
  double squared_error = 0;            // of the vector, the mean over draws
  double largest_error = 0;            // of any number in any draw

  // How far a mean may be off, by Bernstein's inequality: 1 of 6e7 is further (2 exp(-18)), or,
  // where what is drawn is too rare for the variance to be seen, 1 of 1.6e5 (exp(-12)).
  double tolerance(std::size_t i) const;
};

double Moments::tolerance(std::size_t i) const {
  return 6 * std::sqrt(variance[i] / kDraws) + 12 * largest_error / kDraws;
}

Moments moments(const std::string& spec, const Numbers& v) {
  const auto code = compression(spec).make();
  const std::size_t n = v.size();
  Moments m{std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> squares(n);
  for (int d = 0; d < kDraws; ++d) {
    const Draw draw{1, 0, static_cast<std::uint64_t>(d)};
    const Numbers back = decoded(*code, encoded(*code, v, draw), n, draw);
    m.squared_error += squared_distance(v, back) / kDraws;
    for (std::size_t i = 0; i < n; ++i) {
      m.largest_error = std::max<double>(m.largest_error, std::abs(v[i] - back[i]));
      m.mean[i] += back[i] / kDraws;
      squares[i] += static_cast<double>(back[i]) * back[i] / kDraws;
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    m.variance[i] = std::max(0.0, squares[i] - m.mean[i] * m.mean[i]);
  return m;
}

class Unbiased : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Unbiased,
                         ::testing::Values("qsgd", "qsgd:levels=1", "qsgd:levels=4,bucket=100",
                                           "terngrad:clip=0", "int8:stochastic=on",
                                           "randomk:ratio=0.1,feedback=off"));

TEST_P(Unbiased, TheMeanOverDrawsIsTheNumberAndTheVarianceWithinItsBound) {
  const Compression c = compression(GetParam());
  ASSERT_FALSE(c.biased);
  const Numbers v = normal_numbers(700, 1);
  const Moments m = moments(GetParam(), v);
  double chi_squared = 0;
  int degrees = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    ASSERT_NEAR(m.mean[i], v[i], m.tolerance(i) + 1e-5 * std::abs(v[i])) << i;
    if (m.variance[i] < 100 * m.largest_error * m.largest_error / kDraws) continue;
    chi_squared += std::pow(m.mean[i] - v[i], 2) / (m.variance[i] / kDraws);
    ++degrees;
  }
  // All together: the sum of n squares has the mean n and the deviation sqrt(2 n).
  EXPECT_LT(chi_squared, degrees + 6 * std::sqrt(2 * degrees));
  EXPECT_GT(degrees, 50);
  EXPECT_LE(m.squared_error, c.squared_error(v.size()) * squared_norm(v) * 1.02);
}

// With error feedback: no scaling, and a contraction by exactly 1 - k/N on average.
TEST(RandomK, IsAContraction) {
  const Numbers v = normal_numbers(700, 2);
  const Moments m = moments("randomk:ratio=0.1", v);
  EXPECT_NEAR(m.squared_error / squared_norm(v), 0.9, 0.003);
}

// A known bug of a published library: places drawn with replacement repeat themselves, and fewer
// than k numbers are sent.
TEST(RandomK, DrawsPlacesWithoutReplacementAllEquallyOften) {
  const std::size_t n = 100, k = 50;
  const auto code = compression("randomk:ratio=0.5").make();
  const Numbers ones(n, 1.f);
  std::vector<int> sent(n);
  std::vector<int> together(n);  // with place 0
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const Draw draw{3, 0, step};
    const Numbers back = decoded(*code, encoded(*code, ones, draw), n, draw);
    ASSERT_EQ(std::count(back.begin(), back.end(), 1.f), static_cast<long>(k));
    ASSERT_EQ(std::count(back.begin(), back.end(), 0.f), static_cast<long>(n - k));
    for (std::size_t i = 0; i < n; ++i) {
      sent[i] += back[i] == 1;
      together[i] += back[i] == 1 && back[0] == 1;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(sent[i], kDraws * 0.5, 6 * std::sqrt(kDraws * 0.25)) << i;
    const double pair = i == 0 ? 0.5 : 0.5 * (k - 1.0) / (n - 1.0);
    EXPECT_NEAR(together[i], kDraws * pair, 6 * std::sqrt(kDraws * pair)) << i;
  }
}

TEST(RandomK, AllRanksDrawTheSamePlacesAndOtherBucketsOthers) {
  const auto code = compression("randomk:ratio=0.1").make();
  const Numbers v = normal_numbers(1000, 4);
  const Draw first{5, 0, 6, 7, 0}, other_rank{5, 3, 6, 7, 1};
  EXPECT_EQ(encoded(*code, v, first).words, encoded(*code, v, other_rank).words);
  for (const Draw& other : {Draw{6, 0, 6, 7}, Draw{5, 0, 7, 7}, Draw{5, 0, 6, 8}})
    EXPECT_NE(encoded(*code, v, first).words, encoded(*code, v, other).words);
}

TEST(Draws, DifferBetweenRanksStepsBucketsAndMessages) {
  const auto code = compression("qsgd:levels=4").make();
  const Numbers v = normal_numbers(1000, 4);
  const Draw first{5, 0, 6, 7, 0};
  for (const Draw& other : {Draw{6, 0, 6, 7, 0}, Draw{5, 1, 6, 7, 0}, Draw{5, 0, 7, 7, 0},
                            Draw{5, 0, 6, 8, 0}, Draw{5, 0, 6, 7, 1}})
    EXPECT_NE(encoded(*code, v, first).words, encoded(*code, v, other).words);
}

// Errors of two messages must not add up: the mean of products of errors is that of independent
// ones.
TEST(Draws, OfTwoRanksAreIndependent) {
  const auto code = compression("qsgd:levels=2").make();
  const Numbers v = normal_numbers(50'000, 4);
  const Draw a{5, 0, 6}, b{5, 1, 6};
  const Numbers one = decoded(*code, encoded(*code, v, a), v.size(), a);
  const Numbers two = decoded(*code, encoded(*code, v, b), v.size(), b);
  double product = 0, squares = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    product += (static_cast<double>(one[i]) - v[i]) * (static_cast<double>(two[i]) - v[i]);
    squares += std::pow(static_cast<double>(one[i]) - v[i], 2);
  }
  EXPECT_LT(std::abs(product / squares), 6 / std::sqrt(static_cast<double>(v.size())));
}

// Unbiased for the numbers that clipping leaves.
TEST(TernGrad, IsUnbiasedForTheClippedNumbers) {
  Numbers v = normal_numbers(700, 5);
  v[3] = 50;
  const double sum = std::accumulate(v.begin(), v.end(), 0.0);
  const double mean = sum / 700, most = 2.5 * std::sqrt(squared_norm(v) / 700 - mean * mean);
  const Moments m = moments("terngrad", v);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double clipped = std::clamp<double>(v[i], -most, most);
    ASSERT_NEAR(m.mean[i], clipped, m.tolerance(i) + 1e-5) << i;
  }
  EXPECT_LT(most, 10);
}

}  // namespace
}  // namespace lockstep
