// What every schedule of a pipeline promises: it does all work of a step once, on the worker that
// holds the stage, in an order in which nobody waits forever.
#include <gmock/gmock.h>

#include <map>
#include <tuple>

#include "parallel/forecast.h"
#include "parallel/schedules.h"
#include "parallel/stash.h"

namespace lockstep {
namespace {

using Key = std::tuple<int, int, int>;  // replica, stage, micro-batch

// When each pass of a micro-batch at a stage began and ended.
using Times = std::map<Key, std::map<StagePass, TimedAction>>;

Times times_of(const Forecast& forecast) {
  Times times;
  for (const auto& worker : forecast.workers)
    for (const TimedAction& one : worker)
      times[{one.action.replica, one.action.stage, one.action.micro}][one.action.pass] = one;
  return times;
}

TEST(PipelineSchedules, DoEveryActionOnceOnTheWorkerThatHoldsTheStage) {
  for_all_schedules([](const std::string& name, const PipelineSchedule& schedule) {
    SCOPED_TRACE(name);
    const Layout layout = schedule.layout();
    ASSERT_EQ(layout.ranks(), schedule.workers);
    ASSERT_EQ(layout.replicas(), schedule.replicas);
    ASSERT_EQ(layout.stages(), schedule.stages);
    EXPECT_EQ(schedule.micros % schedule.batches, 0);
    std::map<Key, std::vector<StagePass>> passes;
    for (int worker = 0; worker < schedule.workers; ++worker)
      for (const Action& action : schedule.orders[worker]) {
        EXPECT_EQ(layout.rank_of({action.replica, action.stage}), worker);
        passes[{action.replica, action.stage, action.micro}].push_back(action.pass);
      }
    using enum StagePass;
    const std::vector<StagePass> whole = {forward, backward},
                                 split = {forward, backward_inputs, backward_weights},
                                 again = {forward, recompute, backward};
    const auto& expected =
        schedule.recomputes ? again : (name.starts_with("zb-h1") ? split : whole);
    EXPECT_EQ(std::ssize(passes), schedule.replicas * schedule.stages * schedule.micros);
    for (const auto& [key, all] : passes) {
      const auto [replica, stage, micro] = key;
      EXPECT_TRUE(replica >= 0 && stage >= 0 && micro >= 0 && micro < schedule.micros);
      EXPECT_EQ(all, expected);
    }
  });
}

// The order of sums decides their bits: so one order for all schedules.
TEST(PipelineSchedules, TakeMicroBatchesOfAStageInRisingOrder) {
  for_all_schedules([](const std::string& name, const PipelineSchedule& schedule) {
    SCOPED_TRACE(name);
    for (const auto& order : schedule.orders) {
      std::map<std::tuple<StagePass, int, int>, int> next;
      for (const Action& action : order) {
        const int expected = next[{action.pass, action.replica, action.stage}]++;
        EXPECT_EQ(action.micro, expected);
      }
    }
  });
}

// Stages of uneven speed, a skip over all of them, and messages that take a while.
TEST(PipelineSchedules, EndForAnyTimesAndDoNothingBeforeWhatItNeeds) {
  for_all_schedules([](const std::string& name, const PipelineSchedule& schedule) {
    SCOPED_TRACE(name);
    std::vector<PassTimes> times;
    for (int stage = 0; stage < schedule.stages; ++stage)
      times.push_back({1.0 + stage % 3, 2.0 - stage % 2, 0.5 + stage % 4});
    std::vector<StageLink> links;
    for (int stage = 1; stage < schedule.stages; ++stage)
      links.push_back({stage - 1, stage, 0.25 * (stage % 3), 1});
    if (schedule.stages > 1) links.push_back({0, schedule.stages - 1, 0.75, 1});
    const Forecast forecast = lockstep::forecast(schedule, times, links);
    const Layout layout = schedule.layout();
    const Times all = times_of(forecast);
    const auto input_gradient = [](const std::map<StagePass, TimedAction>& passes) {
      return passes.contains(StagePass::backward) ? passes.at(StagePass::backward)
                                                  : passes.at(StagePass::backward_inputs);
    };
    for (const StageLink& link : links)
      for (int replica = 0; replica < schedule.replicas; ++replica)
        for (int micro = 0; micro < schedule.micros; ++micro) {
          const auto& from = all.at({replica, link.from, micro});
          const auto& to = all.at({replica, link.to, micro});
          const bool local =
              layout.rank_of({replica, link.from}) == layout.rank_of({replica, link.to});
          const double message_s = local ? 0 : link.message_s;
          ASSERT_GE(to.at(StagePass::forward).begin_s,
                    from.at(StagePass::forward).end_s + message_s);
          ASSERT_GE(input_gradient(from).begin_s, input_gradient(to).end_s + message_s);
        }
    for (const auto& [key, passes] : all) {
      double end_s = 0;  // passes of a micro-batch at a stage follow each other as listed
      for (const auto& [pass, one] : passes) {
        ASSERT_GE(one.begin_s, end_s);
        ASSERT_DOUBLE_EQ(one.end_s - one.begin_s, times[std::get<1>(key)].of(pass));
        end_s = one.end_s;
      }
    }
    for (const auto& worker : forecast.workers)
      for (std::size_t i = 1; i < worker.size(); ++i)
        ASSERT_GE(worker[i].begin_s, worker[i - 1].end_s);
  });
}

TEST(PipelineSchedules, KeepAtLeastOneMicroBatchAndAtMostAll) {
  for_all_schedules([](const std::string& name, const PipelineSchedule& schedule) {
    SCOPED_TRACE(name);
    for (const Stash& stash : stashes(schedule)) {
      EXPECT_GE(stash.activations, 1);
      EXPECT_LE(stash.activations, stash.inputs);
      EXPECT_LE(stash.inputs, schedule.micros);
    }
  });
}

}  // namespace
}  // namespace lockstep
