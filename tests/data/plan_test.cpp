// What each worker reads in each step: everything once an epoch, known to all, repeatable.
#include "data/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::vector<int> labels_of(std::size_t samples, int classes) {
  std::vector<int> labels;
  Rng rng(3, 0, 1);
  for (std::size_t i = 0; i < samples; ++i)
    labels.push_back(static_cast<int>(std::min(rng.below(classes), rng.below(2 * classes))));
  return labels;
}

struct Case {
  std::string split;
  std::size_t samples;
  std::vector<std::size_t> batch;
  bool reshard, balanced;
  Cut cut = Cut::own;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.split << c.samples; }
};

class EveryPlan : public ::testing::TestWithParam<Case> {
 protected:
  Plan make(std::uint64_t seed = 1) const {
    const Case& c = GetParam();
    return Plan({labels_, 5}, {Split(c.split), c.batch, c.reshard, c.balanced, c.cut}, seed);
  }
  const std::vector<int> labels_ = labels_of(GetParam().samples, 5);
};

TEST_P(EveryPlan, ReadsEachSampleOnceAnEpoch) {
  Plan plan = make();
  for (int epoch : {0, 1, 2}) {
    std::vector<int> seen(labels_.size());
    for (int w = 0; w < plan.workers(); ++w)
      for (std::size_t step = 0; step < plan.steps(epoch); ++step)
        for (std::uint32_t sample : plan.indices(w, epoch, step)) ++seen.at(sample);
    EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen)) << "epoch " << epoch;
  }
}

TEST_P(EveryPlan, KnowsEverybodysCounts) {
  Plan plan = make();
  for (int epoch : {0, 1})
    for (std::size_t step = 0; step < plan.steps(epoch); ++step) {
      std::size_t sum = 0;
      for (int w = 0; w < plan.workers(); ++w) {
        const std::size_t count = plan.samples(epoch, step)[w];
        EXPECT_EQ(count, plan.indices(w, epoch, step).size());
        if (GetParam().cut != Cut::by_share) {
          EXPECT_LE(count, GetParam().batch[w]);
        }
        sum += count;
      }
      EXPECT_GT(sum, 0u);
    }
}

TEST_P(EveryPlan, IsTheSameInAnyOrderOfAskingAndForAnyCopy) {
  Plan forwards = make(), backwards = make(), copy = forwards;
  for (int epoch = 2; epoch >= 0; --epoch)
    for (std::size_t step = backwards.steps(epoch); step-- > 0;) {
      const auto late = backwards.indices(0, epoch, step);
      const Shard expected(late.begin(), late.end());
      EXPECT_THAT(copy.indices(0, epoch, step), ::testing::ElementsAreArray(expected));
    }
  EXPECT_THAT(forwards.indices(0, 0, 0), ::testing::ElementsAreArray(backwards.indices(0, 0, 0)));
}

TEST_P(EveryPlan, FindsAStepByItsNumber) {
  Plan plan = make();
  std::uint64_t number = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(plan.steps_before(epoch), number);
    for (std::size_t step = 0; step < plan.steps(epoch); ++step, ++number) {
      EXPECT_EQ(plan.position(number).epoch, epoch);
      EXPECT_EQ(plan.position(number).step, step);
    }
  }
  EXPECT_EQ(plan.position(0).epoch, 0);  // back again
}

INSTANTIATE_TEST_SUITE_P(
    Options, EveryPlan,
    ::testing::Values(Case{"random", 1000, {64}, false, false},
                      Case{"random", 1000, {64, 64, 64}, false, false},
                      Case{"random", 1000, {32, 64, 1}, true, false},
                      Case{"contiguous", 7, {64, 64, 64}, false, false},
                      Case{"contiguous", 2, {4, 4, 4, 4}, false, false},
                      Case{"dirichlet:alpha=0.1", 1000, {16, 16, 16, 16}, true, false},
                      Case{"class", 1000, {10, 10}, false, false},
                      Case{"equal", 1000, {50, 20}, false, true},
                      Case{"random", 1000, {10, 10, 10}, true, true},
                      Case{"random", 1000, {22, 21, 21}, false, false, Cut::common},
                      Case{"random", 1000, {10, 10, 10}, true, true, Cut::common},
                      Case{"random", 1000, {22, 21, 21}, true, false, Cut::by_share},
                      Case{"contiguous", 2, {2, 1, 1}, false, false, Cut::by_share},
                      Case{"dirichlet:alpha=0.1", 1000, {6, 5, 5, 5}, true, false, Cut::by_share}));

// A number of workers and a global batch that it need not divide.
class GlobalBatch : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  static constexpr std::size_t kSamples = 1003;
  Plan make(const std::string& split, Cut cut, bool reshard = false) const {
    const auto [workers, global] = GetParam();
    std::vector<std::size_t> batch;
    for (int w = 0; w < workers; ++w) batch.push_back(chunk(global, workers, w).count);
    return Plan({labels_, 5}, {Split(split), batch, reshard, false, cut}, 1);
  }
  static std::size_t global() { return std::get<1>(GetParam()); }
  const std::vector<int> labels_ = labels_of(kSamples, 5);
};

TEST_P(GlobalBatch, CommonGivesTheSamplesOfOneWorkerInTheSameSteps) {
  for (const bool reshard : {false, true}) {
    Plan alone({labels_, 5}, {Split("random"), {global()}, reshard}, 1);
    Plan plan = make("random", Cut::common, reshard);
    for (int epoch : {0, 1}) {
      ASSERT_EQ(plan.steps(epoch), (kSamples + global() - 1) / global());
      ASSERT_EQ(plan.steps(epoch), alone.steps(epoch));
      for (std::size_t step = 0; step < plan.steps(epoch); ++step) {
        Shard all;
        for (int w = 0; w < plan.workers(); ++w) {
          const auto batch = plan.indices(w, epoch, step);
          all.insert(all.end(), batch.begin(), batch.end());
        }
        EXPECT_THAT(alone.indices(0, epoch, step), ::testing::ElementsAreArray(all));
      }
    }
  }
}

TEST_P(GlobalBatch, ByShareKeepsShardsAndLetsAllRunOutTogether) {
  for (const char* split : {"random", "equal", "contiguous", "dirichlet:alpha=0.3"}) {
    Plan plan = make(split, Cut::by_share), shards = make(split, Cut::own);
    ASSERT_EQ(plan.steps(0), (kSamples + global() - 1) / global()) << split;
    for (int w = 0; w < plan.workers(); ++w) {
      Shard mine, shard;
      for (std::size_t step = 0; step < plan.steps(0); ++step) {
        const auto batch = plan.indices(w, 0, step);
        mine.insert(mine.end(), batch.begin(), batch.end());
      }
      for (std::size_t step = 0; step < shards.steps(0); ++step) {
        const auto batch = shards.indices(w, 0, step);
        shard.insert(shard.end(), batch.begin(), batch.end());
      }
      EXPECT_EQ(mine, shard) << split << ", worker " << w;
      for (std::size_t step = 0; step + 1 < plan.steps(0); ++step) {
        const double due = static_cast<double>(global() * shard.size()) / kSamples;
        EXPECT_NEAR(static_cast<double>(plan.samples(0, step)[w]), due, 2) << split;
      }
    }
    for (std::size_t step = 0; step < plan.steps(0); ++step) {
      std::size_t sum = 0;
      for (const std::size_t count : plan.samples(0, step)) sum += count;
      EXPECT_EQ(sum, std::min(global(), kSamples - step * global())) << split << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GlobalBatch,
                         ::testing::Combine(::testing::Values(1, 2, 3, 7, 24),
                                            ::testing::Values(std::size_t{24}, 64, 100, 1003,
                                                              2000)));

TEST(Plan, ShufflesAnewEveryEpochInsideTheSameShard) {
  const std::vector<int> labels = labels_of(100, 5);
  Plan plan({labels, 5}, {Split("random"), {50, 50}}, 1);
  const auto read = [&](int epoch) {
    const auto batch = plan.indices(1, epoch, 0);
    return Shard(batch.begin(), batch.end());
  };
  const Shard first = read(0), second = read(1);
  EXPECT_NE(first, second);
  EXPECT_THAT(second, ::testing::UnorderedElementsAreArray(first));
}

TEST(Plan, DealsAnewEveryEpochWhenToldTo) {
  const std::vector<int> labels = labels_of(100, 5);
  Plan plan({labels, 5}, {Split("random"), {50, 50}, true}, 1);
  const auto batch = plan.indices(1, 0, 0);
  const Shard first(batch.begin(), batch.end());
  EXPECT_THAT(plan.indices(1, 1, 0), ::testing::Not(::testing::UnorderedElementsAreArray(first)));
}

TEST(Plan, AWorkerThatRanOutHasEmptyBatches) {
  const std::vector<int> labels{0, 0, 0, 0, 0, 1};
  Plan plan({labels, 2}, {Split("class"), {2, 2}}, 1);
  EXPECT_EQ(plan.steps(0), 3u);
  EXPECT_THAT(plan.samples(0, 0), ElementsAre(2, 1));
  EXPECT_THAT(plan.samples(0, 1), ElementsAre(2, 0));
  EXPECT_THAT(plan.samples(0, 2), ElementsAre(1, 0));
  EXPECT_THAT(plan.indices(1, 0, 2), IsEmpty());
}

TEST(Plan, BalancedBatchesHoldAsManyOfEachClass) {
  std::vector<int> labels(30, 0);
  labels.insert(labels.end(), 20, 1);
  Plan plan({labels, 2}, {Split("random"), {8}, false, true}, 1);
  // 20 of class 1 fill 5 batches with 4; of class 0 then 10 are left over: one batch of 8, one
  // of 2.
  ASSERT_EQ(plan.steps(0), 7u);
  std::map<std::size_t, int> batches;  // by number of class 1
  for (std::size_t step = 0; step < 7; ++step)
    ++batches[std::ranges::count_if(plan.indices(0, 0, step), [&](auto i) { return labels[i]; })];
  EXPECT_EQ(batches[4], 5);
  EXPECT_EQ(batches[0], 2);
  EXPECT_EQ(plan.samples(0, 6)[0], 2u);
  EXPECT_THAT(plan.notices(), ElementsAre(HasSubstr("2 of 7 batches")));
}

TEST(Plan, LeftoversOfBalancedBatchesSpreadOverTheEpoch) {
  std::vector<int> labels(150, 0);
  labels.insert(labels.end(), 50, 1);
  Plan plan({labels, 2}, {Split("random"), {10}, false, true}, 1);
  for (std::size_t step = 0; step < 20; ++step) {
    const auto of_one =
        std::ranges::count_if(plan.indices(0, 0, step), [&](auto i) { return labels[i]; });
    EXPECT_EQ(of_one, step % 2 == 0 ? 5 : 0);
  }
}

TEST(Plan, RefusesABalancedBatchThatIsNoMultiple) {
  const std::vector<int> labels = labels_of(1000, 10);
  const auto make = [&](std::size_t batch) {
    return [&labels, batch] { Plan({labels, 10}, {Split("equal"), {batch}, false, true}, 1); };
  };
  EXPECT_THAT(make(64),
              ThrowsMessage<UsageError>(AllOf(HasSubstr("64 is not"), HasSubstr("are 60 and 70"))));
  EXPECT_THAT(make(4), ThrowsMessage<UsageError>(HasSubstr("is 10")));
}

TEST(Plan, RefusesBalancedBatchesThatAWorkerCanNotFill) {
  const std::vector<int> labels = labels_of(1000, 10);
  EXPECT_THAT(
      [&] {
        Plan({labels, 10}, {Split("class"), {10, 10}, false, true}, 1);
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("hold 0 of class 1"), HasSubstr("--split equal"))));
}

TEST(Plan, TellsOfShardsSmallerThanTheirBatch) {
  const std::vector<int> labels = labels_of(10, 2);
  EXPECT_THAT(Plan({labels, 2}, {Split("contiguous"), {8, 4}}, 1).notices(),
              ElementsAre(HasSubstr("1 of 2 workers have fewer samples than their batch")));
  EXPECT_THAT(Plan({labels, 2}, {Split("contiguous"), {5, 5}}, 1).notices(), IsEmpty());
}

TEST(Plan, TellsOfAGlobalBatchThatIsMoreThanAll) {
  const std::vector<int> labels = labels_of(10, 2);
  for (const Cut cut : {Cut::by_share, Cut::common})
    EXPECT_THAT(Plan({labels, 2}, {Split("random"), {8, 8}, false, false, cut}, 1).notices(),
                ElementsAre(HasSubstr("the global batch of 16 is more than the 10 samples")));
}

TEST(Plan, TellsOfWorkersWithoutSamples) {
  const std::vector<int> labels{0, 1};
  EXPECT_THAT(Plan({labels, 2}, {Split("contiguous"), {1, 1, 1}}, 1).notices(),
              ElementsAre(HasSubstr("1 of 3 workers have no samples")));
}

TEST(Plan, KnowsHowManySamplesEachWorkerHas) {
  const std::vector<int> labels = labels_of(23, 2);
  for (const Cut cut : {Cut::own, Cut::by_share, Cut::common}) {
    Plan plan({labels, 2}, {Split("random"), {3, 2, 2}, false, false, cut}, 1);
    std::vector<std::size_t> counted(3);
    for (std::size_t step = 0; step < plan.steps(0); ++step)
      for (int w = 0; w < 3; ++w) counted[w] += plan.samples(0, step)[w];
    EXPECT_EQ(plan.samples_by_worker(), counted);
  }
}

TEST(Plan, KnowsWhoHasNoSamplesInAnyEpoch) {
  const std::vector<int> labels{0, 1};
  const auto idle = [&](const std::string& split, bool reshard, Cut cut) {
    return Plan({labels, 2}, {Split(split), {1, 1, 1}, reshard, false, cut}, 1).idle();
  };
  EXPECT_THAT(idle("contiguous", false, Cut::own), ElementsAre(2));
  EXPECT_THAT(idle("contiguous", false, Cut::by_share), ElementsAre(2));
  EXPECT_THAT(idle("random", false, Cut::common), ElementsAre(2));
  EXPECT_THAT(idle("random", true, Cut::common), ElementsAre(2));
  EXPECT_THAT(idle("random", true, Cut::own), IsEmpty());  // it may have some in the next
}

}  // namespace
}  // namespace lockstep
