#include "strategies/audit/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"

namespace lockstep {
namespace {

struct Numbers {
  explicit Numbers(std::size_t count) : data(count) {
    Rng rng(3, 0, 0);
    for (float& x : data) x = static_cast<float>(rng.normal());
  }
  Values values() { return {data.data(), data.size(), Type::fp32}; }
  std::vector<float> data;
};

void expect_near(const Projection& a, const Projection& b) {
  for (int p = 0; p < kProjections; ++p) EXPECT_NEAR(a.along[p], b.along[p], 1e-9);
  EXPECT_NEAR(a.square, b.square, 1e-9);
}

TEST(Projection, PartsAddUpToTheWholeWhereverTheyAreCut) {
  Numbers numbers(1000);
  const Projection whole = project(numbers.values(), {0, 1000}, 7);
  for (const std::size_t cut : {0, 1, 63, 64, 65, 500, 999, 1000}) {
    Projection sum = project(numbers.values(), {0, cut}, 7);
    sum += project(numbers.values(), {cut, 1000 - cut}, 7);
    expect_near(sum, whole);
  }
}

TEST(Projection, IsLinear) {
  Numbers a(777), b(777), sum(777);
  for (std::size_t i = 0; i < 777; ++i) {
    b.data[i] = std::round(a.data[i] * 100);
    a.data[i] = std::round(a.data[i] * 1000);
    sum.data[i] = 3 * a.data[i] - b.data[i];
  }
  const Projection pa = project(a.values(), {0, 777}, 1), pb = project(b.values(), {0, 777}, 1),
                   ps = project(sum.values(), {0, 777}, 1);
  for (int p = 0; p < kProjections; ++p) EXPECT_EQ(ps.along[p], 3 * pa.along[p] - pb.along[p]);
}

TEST(Projection, EveryElementCountsOnceWithASignThatIsAFairCoin) {
  std::vector<float> one(4096);
  int minus[kProjections] = {}, both = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    one[i] = 1;
    const Projection p = project({one.data(), one.size(), Type::fp32}, {0, one.size()}, 5);
    one[i] = 0;
    EXPECT_EQ(p.square, 1);
    for (int k = 0; k < kProjections; ++k) {
      EXPECT_EQ(std::abs(p.along[k]), 1);
      minus[k] += p.along[k] < 0;
    }
    both += p.along[0] < 0 && p.along[1] < 0;
  }
  for (const int n : minus) EXPECT_NEAR(n, 2048, 160);  // five deviations
  EXPECT_NEAR(both, 1024, 140);
}

TEST(Projection, OtherSeedsAreOtherPatterns) {
  Numbers numbers(640);
  EXPECT_NE(project(numbers.values(), {0, 640}, 1).along[0],
            project(numbers.values(), {0, 640}, 2).along[0]);
  EXPECT_EQ(project(numbers.values(), {0, 640}, 1), project(numbers.values(), {0, 640}, 1));
}

}  // namespace
}  // namespace lockstep
