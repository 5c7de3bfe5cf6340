#include "strategies/buckets.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep {
namespace {

using Tensors = std::vector<TensorGradient>;

// Counts and ready times as random as can be, ready in the order of backward.
Tensors random_tensors(Rng& random, std::size_t most) {
  Tensors tensors(1 + random.below(most));
  double ready = 0;
  for (auto t = tensors.rbegin(); t != tensors.rend(); ++t) {
    ready += static_cast<double>(random.below(6));
    *t = {1 + random.below(5), ready};
  }
  return tensors;
}

LineCost random_cost(Rng& random) {
  return {static_cast<double>(random.below(8)), static_cast<double>(random.below(4)) / 4};
}

// Every way to cut.
double by_brute_force(const Tensors& tensors, const LineCost& cost) {
  double best = std::numeric_limits<double>::infinity();
  std::size_t all = 0;
  for (const auto& t : tensors) all += t.count;
  for (std::uint32_t cuts = 0; cuts < 1u << (tensors.size() - 1); ++cuts) {
    Buckets buckets;
    std::size_t end = all, begin = all;
    for (std::size_t i = tensors.size(); i-- > 0;) {
      begin -= tensors[i].count;
      if (i > 0 && !(cuts >> (i - 1) & 1)) continue;
      buckets.push_back({begin, end - begin});
      end = begin;
    }
    best = std::min(best, finish_s(buckets, tensors, cost));
  }
  return best;
}

// The last gradients first, each once.
void expect_all_once(const Buckets& buckets, const Tensors& tensors) {
  std::size_t end = 0;
  for (const auto& t : tensors) end += t.count;
  for (const Slice& bucket : buckets) {
    EXPECT_EQ(bucket.end(), end);
    EXPECT_GT(bucket.count, 0u);
    end = bucket.begin;
  }
  EXPECT_EQ(end, 0u);
}

TEST(Buckets, TheBestIsThatOfBruteForceAndGreedyLiesBetweenItAndTheOthers) {
  Rng random(1, 0, purpose_of("buckets"));
  int greedy_is_worse = 0;
  for (int i = 0; i < 2000; ++i) {
    const Tensors tensors = random_tensors(random, 9);
    const LineCost cost = random_cost(random);
    const Buckets best = merged_best(tensors, cost), greedy = merged_greedily(tensors, cost);
    const double best_s = finish_s(best, tensors, cost), greedy_s = finish_s(greedy, tensors, cost);
    ASSERT_EQ(best_s, by_brute_force(tensors, cost)) << i;
    ASSERT_LE(best_s, greedy_s) << i;
    ASSERT_LE(greedy_s, finish_s(bucket_each(tensors), tensors, cost)) << i;
    ASSERT_LE(greedy_s, finish_s(single_bucket(tensors), tensors, cost)) << i;
    greedy_is_worse += best_s < greedy_s;
    for (const Buckets& plan : {best, greedy, bucket_each(tensors), single_bucket(tensors),
                                buckets_by_size(tensors, 8, 24)})
      expect_all_once(plan, tensors);
  }
  EXPECT_GT(greedy_is_worse, 20);
}

// The smallest case in which the greedy rule is not the best.
TEST(Buckets, GreedyMergesTooEagerly) {
  const Tensors tensors = {{1, 4}, {2, 2}, {1, 1}};
  const LineCost cost{2, 0.25};  // one second for each number
  EXPECT_EQ(merged_greedily(tensors, cost), (Buckets{{1, 3}, {0, 1}}));
  EXPECT_EQ(finish_s(merged_greedily(tensors, cost), tensors, cost), 10);
  EXPECT_EQ(merged_best(tensors, cost), (Buckets{{3, 1}, {0, 3}}));
  EXPECT_EQ(finish_s(merged_best(tensors, cost), tensors, cost), 9);
}

TEST(Buckets, MergeEverythingWhereStartingIsDearAndNothingWhereItIsFree) {
  const Tensors tensors = {{100, 3}, {100, 2}, {100, 1}};
  EXPECT_EQ(merged_best(tensors, {1000, 0.001}), single_bucket(tensors));
  EXPECT_EQ(merged_greedily(tensors, {1000, 0.001}), single_bucket(tensors));
  EXPECT_EQ(merged_greedily(tensors, {0, 0.001}), bucket_each(tensors));
  EXPECT_EQ(finish_s(merged_best(tensors, {0, 0.001}), tensors, {0, 0.001}),
            finish_s(bucket_each(tensors), tensors, {0, 0.001}));
}

// As DistributedDataParallel: a bucket is closed once it has its size, so it may be larger.
TEST(Buckets, BySizeAreClosedOnceTheyHaveIt) {
  const std::size_t mib = (1 << 20) / sizeof(float);
  const Tensors tensors = {{mib / 2}, {20 * mib}, {10 * mib}, {mib}, {mib / 2}, {mib / 2}};
  EXPECT_EQ(buckets_by_size(tensors),
            (Buckets{{31 * mib + mib / 2, mib}, {mib / 2, 31 * mib}, {0, mib / 2}}));
  EXPECT_EQ(buckets_by_size(tensors, 1, 1), bucket_each(tensors));
}

TEST(Buckets, FinishFollowsReadinessAndTheLine) {
  const Tensors tensors = {{10, 5}, {20, 1}};
  const LineCost cost{1, 0.1};
  EXPECT_DOUBLE_EQ(finish_s(bucket_each(tensors), tensors, cost), 1 + 1 + 8 + 1 + 4);
  EXPECT_DOUBLE_EQ(finish_s(single_bucket(tensors), tensors, cost), 5 + 1 + 12);
  EXPECT_THROW(finish_s({{5, 25}, {0, 5}}, tensors, cost), InternalError);
}

TEST(Buckets, OfNothingAreNone) {
  EXPECT_TRUE(single_bucket({}).empty());
  EXPECT_TRUE(bucket_each({}).empty());
  EXPECT_TRUE(merged_best({}, {}).empty());
  EXPECT_TRUE(merged_greedily({}, {}).empty());
  EXPECT_EQ(finish_s({}, {}, {}), 0);
}

// Where branches run side by side a later tensor can be ready before an earlier one.
TEST(Buckets, ReadyTimesNeedNotAscend) {
  const Tensors tensors = {{1, 2}, {1, 9}, {1, 1}};
  const LineCost cost{3, 0.25};
  EXPECT_EQ(finish_s(merged_best(tensors, cost), tensors, cost), by_brute_force(tensors, cost));
}

}  // namespace
}  // namespace lockstep
