#include "compression/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "specs.h"

namespace lockstep {
namespace {

std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffff; }

std::vector<std::uint32_t> by_sorting(const Numbers& v, std::size_t k) {
  std::vector<std::uint32_t> order(v.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return magnitude(v[a]) > magnitude(v[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<std::uint32_t> selected(const Numbers& v, std::size_t k) {
  static Selection selection;  // the same one for all sizes: what it keeps must not matter
  std::vector<std::uint32_t> indices(k);
  selection.top(v, k, 0, indices.data());
  return indices;
}

TEST(Selection, TakesExactlyTheLargest) {
  for (const std::size_t n : odd_sizes())
    for (const double share : {0.0, 0.001, 0.01, 0.3, 0.9, 1.0}) {
      const auto k = static_cast<std::size_t>(share * static_cast<double>(n));
      const Numbers v = normal_numbers(n, n);
      EXPECT_EQ(selected(v, k), by_sorting(v, k)) << k << " of " << n;
    }
}

TEST(Selection, OfEqualOnesTakesTheLowestIndices) {
  for (const std::size_t n : {std::size_t{100}, std::size_t{200'000}})
    for (const std::size_t k : {std::size_t{1}, n / 100, n / 2}) {
      const Numbers equal(n, -2.5f);
      std::vector<std::uint32_t> first(k);
      std::iota(first.begin(), first.end(), 0u);
      EXPECT_EQ(selected(equal, k), first);
      EXPECT_EQ(selected(Numbers(n, 0.f), k), first) << "zeros";
      const Numbers few = whole_numbers(n, 3, 4);
      EXPECT_EQ(selected(few, k), by_sorting(few, k)) << "nine different values";
    }
}

// Samples are taken at fixed places, so a vector can be made that misleads them.
TEST(Selection, IsNotMisledByWhatASampleSees) {
  const std::size_t n = 1 << 18, stride = n / (1 << 14);
  Numbers small_seen = normal_numbers(n, 5), large_seen = small_seen;
  for (std::size_t i = 0; i < n; i += stride) {
    small_seen[i] *= 1e-6f;
    large_seen[i] *= 1e6f;
  }
  for (const std::size_t k : {std::size_t{1}, n / 1000, n / 100, n / 10}) {
    EXPECT_EQ(selected(small_seen, k), by_sorting(small_seen, k)) << k;
    EXPECT_EQ(selected(large_seen, k), by_sorting(large_seen, k)) << k;
  }
}

TEST(Selection, PutsNanBeforeInfinityBeforeAllElse) {
  Numbers v = normal_numbers(100'000, 6);
  v[70'000] = -INFINITY;
  v[90'000] = NAN;
  v[12] = -NAN;
  EXPECT_EQ(selected(v, 1), std::vector<std::uint32_t>{12});
  EXPECT_EQ(selected(v, 3), (std::vector<std::uint32_t>{12, 70'000, 90'000}));
}

TEST(Selection, OffsetsIndices) {
  Selection selection;
  std::uint32_t index = 0;
  const Numbers v = {1, -5, 3};
  selection.top(v, 1, 1000, &index);
  EXPECT_EQ(index, 1001u);
}

}  // namespace
}  // namespace lockstep
