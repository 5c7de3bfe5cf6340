// How a plan is measured: what is timed, what comes of it, and what a replay makes of it.
#include "strategies/bucket_feed.h"

#include <gtest/gtest.h>

#include <deque>

namespace lockstep {
namespace {

// Time passes when it is told; decisions are noted, or taken from a run that was.
class ToldClock final : public Clock {
 public:
  explicit ToldClock(std::deque<bool> recorded = {})
      : recorded_(std::move(recorded)), replays_(!recorded_.empty()) {}
  double now() const override { return now_s_; }
  void charge(double seconds) override { now_s_ += seconds; }
  bool decided(bool found) override {
    if (replays_) {
      found = recorded_.front();
      recorded_.pop_front();
    }
    decisions.push_back(found);
    return found;
  }

  std::deque<bool> decisions;

 private:
  std::deque<bool> recorded_;
  const bool replays_;
  double now_s_ = 0;
};

std::vector<Parameter> tensors_of(const std::vector<std::size_t>& counts) {
  std::vector<Parameter> tensors;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    tensors.push_back({.name = "", .slice = {begin, count}, .shape = {}});
    begin += count;
  }
  return tensors;
}

const std::vector<std::size_t> kCounts = {100, 400, 300, 900, 200};
constexpr double kReadySeconds = 0.01;  // from one tensor to the next, the last first

// The plan after a trial in which a bucket of n bytes takes `seconds(n)`.
Buckets plan_after_trial(Clock& clock, const std::function<double(std::size_t)>& seconds) {
  const std::vector<Parameter> tensors = tensors_of(kCounts);
  std::optional<BucketFeed> feed;
  feed.emplace(clock, BucketRule{.overlap = true, .measures_plan = true}, [&](std::size_t b) {
    const std::size_t count = feed->buckets()[b].count;
    feed->took(count, seconds(4 * count));
  });
  feed->begin(tensors);
  for (int exchange = 0; exchange < 6; ++exchange) {
    feed->open();
    for (std::size_t t = tensors.size(); t-- > 0;) {
      clock.charge(kReadySeconds);
      feed->ready(tensors[t].slice);
    }
    feed->close();
  }
  return feed->buckets();
}

std::vector<TensorGradient> timed_tensors() {
  std::vector<TensorGradient> tensors;
  double ready_s = kReadySeconds * static_cast<double>(kCounts.size());
  for (const std::size_t count : kCounts) {
    tensors.push_back({count, ready_s});
    ready_s -= kReadySeconds;
  }
  return tensors;
}

TEST(BucketFeed, TakesThePlanThatWouldHaveEndedFirst) {
  std::vector<Buckets> plans;
  for (const LineCost cost : {LineCost{0.001, 1e-5}, {0.02, 1e-5}, {0.015, 1e-6}, {1, 1e-6}}) {
    ToldClock clock;
    plans.push_back(plan_after_trial(clock, [&](std::size_t bytes) {
      return cost.start_s + cost.per_byte_s * static_cast<double>(bytes);
    }));
    EXPECT_EQ(plans.back(), merged_best(timed_tensors(), cost)) << cost.start_s;
  }
  EXPECT_GT(plans.front().size(), 1u);
  EXPECT_EQ(plans.back().size(), 1u);
}

// Long messages are slower than short ones by more than their bytes: the line through all times
// begins below nothing, and the one from nothing on is not as steep.
TEST(BucketFeed, FitsAnewWhereMessagesWouldStartBeforeTheyAreSent) {
  const auto square = [](std::size_t bytes) { return 4e-9 * static_cast<double>(bytes * bytes); };
  double xx = 0, xy = 0;
  std::size_t all = 0;
  const auto add = [&](std::size_t count) {
    const auto bytes = static_cast<double>(4 * count);
    xx += bytes * bytes;
    xy += bytes * square(4 * count);
  };
  for (const std::size_t count : kCounts) {
    add(count);
    all += count;
  }
  add(all);
  ToldClock clock;
  EXPECT_EQ(plan_after_trial(clock, square), merged_best(timed_tensors(), {0, xy / xx}));
}

TEST(BucketFeed, GoesByTheRecordedPlanInAReplay) {
  ToldClock first;
  const Buckets plan = plan_after_trial(first, [](std::size_t) { return 0.015; });
  ToldClock again(first.decisions);
  EXPECT_EQ(plan_after_trial(again, [](std::size_t bytes) { return 1e-6 * double(bytes); }), plan);
  EXPECT_EQ(again.decisions, first.decisions);
  ToldClock other;
  EXPECT_NE(plan_after_trial(other, [](std::size_t bytes) { return 1e-6 * double(bytes); }), plan);
}

}  // namespace
}  // namespace lockstep
