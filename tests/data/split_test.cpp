// Every split gives each sample to exactly one worker, and is what its name says.
#include "data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Uneven classes, mixed up.
std::vector<int> labels_of(std::size_t samples, int classes) {
  std::vector<int> labels;
  Rng rng(7, 0, 1);
  for (std::size_t i = 0; i < samples; ++i)
    labels.push_back(static_cast<int>(std::min(rng.below(classes), rng.below(classes + 1))));
  return labels;
}

Shards deal(std::string_view split, const std::vector<int>& labels, int classes, int workers,
            std::uint64_t seed = 1) {
  return Split(split).deal({labels, classes}, workers, Rng(seed, 0, purpose_of("split")));
}

std::vector<std::size_t> counts_by_class(const Shard& shard, const std::vector<int>& labels,
                                         int classes) {
  std::vector<std::size_t> counts(classes);
  for (std::uint32_t sample : shard) ++counts[labels[sample]];
  return counts;
}

using Case = std::tuple<std::string, std::size_t, int>;
class EverySplit : public ::testing::TestWithParam<Case> {
 protected:
  // `class` with too few classes.
  static bool is_refused() {
    const auto& [split, samples, workers] = GetParam();
    const std::vector<int> labels = labels_of(samples, 10);
    const std::set<int> classes(labels.begin(), labels.end());
    if (split != "class" || workers <= std::ssize(classes)) return false;
    EXPECT_THROW(deal(split, labels, 10, workers), UsageError);
    return true;
  }
};

TEST_P(EverySplit, GivesEachSampleToExactlyOneWorker) {
  const auto& [split, samples, workers] = GetParam();
  const std::vector<int> labels = labels_of(samples, 10);
  if (is_refused()) return;
  const Shards shards = deal(split, labels, 10, workers);
  ASSERT_EQ(std::ssize(shards), workers);
  std::vector<int> seen(samples);
  for (const Shard& shard : shards)
    for (std::uint32_t sample : shard) ++seen.at(sample);
  EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen));
}

TEST_P(EverySplit, IsAFunctionOfTheSeed) {
  const auto& [split, samples, workers] = GetParam();
  const std::vector<int> labels = labels_of(samples, 10);
  if (is_refused()) return;
  EXPECT_EQ(deal(split, labels, 10, workers, 5), deal(split, labels, 10, workers, 5));
  if (samples < 100 || workers == 1 || split == "class" || split == "contiguous") return;
  EXPECT_NE(deal(split, labels, 10, workers, 5), deal(split, labels, 10, workers, 6));
}

INSTANTIATE_TEST_SUITE_P(Sizes, EverySplit,
                         ::testing::Combine(::testing::Values("random", "equal", "class",
                                                              "contiguous", "dirichlet:alpha=0.001",
                                                              "dirichlet:alpha=0.5",
                                                              "dirichlet:alpha=1000"),
                                            ::testing::Values(std::size_t{0}, 1, 5, 1003),
                                            ::testing::Values(1, 3, 10, 64)));

TEST(Split, RandomGivesEqualParts) {
  for (const Shard& shard : deal("random", labels_of(1003, 10), 10, 4))
    EXPECT_THAT(shard.size(), ::testing::AnyOf(250, 251));
}

TEST(Split, EqualGivesAsManyOfEachClassAndOfAll) {
  const std::vector<int> labels = labels_of(1003, 10);
  const Shards shards = deal("equal", labels, 10, 7);
  std::vector<std::size_t> least(11, 1003), most(11, 0);
  for (const Shard& shard : shards) {
    auto counts = counts_by_class(shard, labels, 10);
    counts.push_back(shard.size());
    for (std::size_t c = 0; c < counts.size(); ++c) {
      least[c] = std::min(least[c], counts[c]);
      most[c] = std::max(most[c], counts[c]);
    }
  }
  for (std::size_t c = 0; c < least.size(); ++c) EXPECT_LE(most[c] - least[c], 1u);
}

TEST(Split, ClassGivesEachWorkerClassesOfItsOwn) {
  const std::vector<int> labels = labels_of(1003, 10);
  const Shards shards = deal("class", labels, 10, 4);
  for (int w = 0; w < 4; ++w)
    for (std::uint32_t sample : shards[w]) EXPECT_EQ(labels[sample] % 4, w);
}

TEST(Split, ClassRefusesMoreWorkersThanClasses) {
  EXPECT_THAT([] { deal("class", labels_of(1003, 10), 10, 11); },
              ThrowsMessage<UsageError>(HasSubstr("11 workers are too many for 10 classes")));
}

TEST(Split, ClassCountsOnlyClassesThatHaveSamples) {
  EXPECT_THAT(
      [] {
        deal("class", {0, 7, 7}, 10, 3);
      },
      ThrowsMessage<UsageError>(HasSubstr("use at most 2")));
}

TEST(Split, SmallAlphaSkewsLabelsAndLargeAlphaDoesNot) {
  const std::vector<int> labels = labels_of(20000, 10);
  const auto most_of_a_class = [&](std::string_view split) {
    double sum = 0;
    const auto total = counts_by_class(deal("contiguous", labels, 10, 1)[0], labels, 10);
    std::vector<std::size_t> most(10);
    for (const Shard& shard : deal(split, labels, 10, 4))
      for (int c = 0; c < 10; ++c)
        most[c] = std::max(most[c], counts_by_class(shard, labels, 10)[c]);
    for (int c = 0; c < 10; ++c) sum += static_cast<double>(most[c]) / total[c];
    return sum / 10;
  };
  EXPECT_GT(most_of_a_class("dirichlet:alpha=0.02"), .9);
  EXPECT_LT(most_of_a_class("dirichlet:alpha=1000"), .3);
}

TEST(Split, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT([] { Split("clas"); }, ThrowsMessage<UsageError>(HasSubstr("did you mean 'class'")));
  EXPECT_THAT([] { Split("dirichlet:alpa=1"); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'alpha'")));
  EXPECT_THAT([] { Split("dirichlet:alpha=0"); }, ThrowsMessage<UsageError>(HasSubstr("above 0")));
}

}  // namespace
}  // namespace lockstep
