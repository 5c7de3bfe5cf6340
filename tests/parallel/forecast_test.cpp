// Forecasts of schedules equal the formulas that are published for them, or derived.
#include "parallel/forecast.h"

#include <gmock/gmock.h>

#include <functional>

#include "core/error.h"
#include "core/rng.h"
#include "parallel/stash.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

// Forwards, backwards of inputs and of weights; the last has W > B, as convolutions here do.
const PassTimes kTimes[] = {{1, 1, 1}, {1, 1, 0.5}, {2, 1, 0.25}, {1, 3, 2}, {1, 0.75, 1.5}};

Forecast even(const std::string& spec, int workers, const PassTimes& times) {
  const PipelineSchedule schedule = pipeline_schedule(spec, workers);
  return forecast(schedule, std::vector(schedule.stages, times));
}

void for_all_sizes(const std::function<void(int k, int m, const PassTimes&)>& test) {
  for (const PassTimes& times : kTimes)
    for (int k = 1; k <= 8; ++k)
      for (int m = 1; m <= 16; ++m) {
        SCOPED_TRACE(fmt::format("K {}, M {}, F {}, B {}, W {}", k, m, times.forward_s,
                                 times.backward_inputs_s, times.backward_weights_s));
        test(k, m, times);
      }
}

TEST(Forecast, PlainTakesAsLongAsOneWorker) {
  for_all_sizes([](int k, int m, const PassTimes& t) {
    for (const char* folded : {"off", "on"}) {
      const int stages = folded == std::string("on") ? 2 * k : k;
      const auto plain = even(fmt::format("plain:microbatches={},folded={}", m, folded), k, t);
      EXPECT_NEAR(plain.makespan_s, m * stages * t.total_s(), 1e-9);
      EXPECT_NEAR(plain.bubble(), 1 - 1.0 / k, 1e-9);
    }
  });
}

TEST(Forecast, GPipeAnd1F1BHaveOneBubble) {
  for_all_sizes([](int k, int m, const PassTimes& t) {
    const double bubble = (k - 1.0) / (m + k - 1);
    for (const char* spec : {"gpipe:recompute=off,microbatches={}", "1f1b:microbatches={}"}) {
      const Forecast forecast = even(fmt::format(fmt::runtime(spec), m), k, t);
      EXPECT_NEAR(forecast.makespan_s, (m + k - 1) * t.total_s(), 1e-9);
      EXPECT_NEAR(forecast.bubble(), bubble, 1e-9);
    }
  });
}

TEST(Forecast, RecomputationBeginsBeforeTheGradientComes) {
  for_all_sizes([](int k, int m, const PassTimes& t) {
    EXPECT_NEAR(even(fmt::format("gpipe:microbatches={}", m), k, t).makespan_s,
                (m + k - 1) * t.total_s() + m * t.forward_s, 1e-9);
  });
}

TEST(Forecast, ChunksDivideTheBubble) {
  for_all_sizes([](int k, int m, const PassTimes& t) {
    if (m % k != 0) return;
    for (const int chunks : {2, 3, 4}) {
      // A chunk takes a part of what a whole stage takes.
      const PassTimes part = {t.forward_s / chunks, t.backward_inputs_s / chunks,
                              t.backward_weights_s / chunks};
      const Forecast forecast =
          even(fmt::format("interleaved:microbatches={},chunks={}", m, chunks), k, part);
      for (const double idle_s : forecast.idle_s)
        EXPECT_NEAR(idle_s, (k - 1) * t.total_s() / chunks, 1e-9);
    }
  });
}

double zb_h1_bubble_s(int k, const PassTimes& t) {
  const double f = t.forward_s, b = t.backward_inputs_s, w = t.backward_weights_s;
  return (k - 1) * std::max({f, b, f + b - w});
}

TEST(Forecast, ZeroBubbleFillsBubblesWithTheGradientsOfWeights) {
  for_all_sizes([](int k, int m, const PassTimes& t) {
    if (m < k) return;
    const Forecast forecast = even(fmt::format("zb-h1:microbatches={}", m), k, t);
    EXPECT_NEAR(forecast.makespan_s, m * t.total_s() + zb_h1_bubble_s(k, t), 1e-9);
  });
}

TEST(Forecast, ZeroBubbleFormulaHoldsForTimesAtRandom) {
  Rng rng(15, 0, purpose_of("zb-h1"));
  for (int i = 0; i < 500; ++i) {
    const int k = 1 + static_cast<int>(rng.below(12)), m = k + static_cast<int>(rng.below(24));
    const PassTimes t = {0.1 + rng.uniform(), 0.1 + rng.uniform(), 0.1 + rng.uniform()};
    const double makespan_s = even(fmt::format("zb-h1:microbatches={}", m), k, t).makespan_s;
    EXPECT_NEAR(makespan_s, m * t.total_s() + zb_h1_bubble_s(k, t), 1e-9)
        << fmt::format("K {}, M {}, F {}, B {}, W {}", k, m, t.forward_s, t.backward_inputs_s,
                       t.backward_weights_s);
  }
}

TEST(Forecast, GemsLetsASecondReplicaFollowTheFirst) {
  for_all_sizes([](int k, int times, const PassTimes& t) {
    const double f = t.forward_s, b = t.backward_s();
    const int batches = 2 * times;
    const double formula = k * (f + b) + (batches - 1) * (std::min(f, b) + k * std::max(f, b));
    const double makespan_s = even(fmt::format("gems:times={}", times), k, t).makespan_s;
    EXPECT_NEAR(makespan_s, formula, 0.02 * formula);
    // Never slower than plain, which takes one batch after the other.
    EXPECT_LE(makespan_s, batches * k * (f + b) + 1e-9);
  });
}

TEST(Forecast, StashesAreAsSmallAsTheSchedulesPromise) {
  for (int k = 1; k <= 8; ++k)
    for (int m = 1; m <= 16; ++m) {
      SCOPED_TRACE(fmt::format("K {}, M {}", k, m));
      const auto stash = [&](const char* spec) {
        return stashes(pipeline_schedule(fmt::format(fmt::runtime(spec), m), k));
      };
      for (int s = 0; s < k; ++s) {
        EXPECT_EQ(stash("plain:microbatches={}")[s], (Stash{1, 1}));
        EXPECT_EQ(stash("gpipe:recompute=off,microbatches={}")[s], (Stash{m, m}));
        EXPECT_EQ(stash("gpipe:microbatches={}")[s], (Stash{1, m}));
        EXPECT_EQ(stash("1f1b:microbatches={}")[s].activations, std::min(m, k - s));
        EXPECT_LE(stash("zb-h1:microbatches={}")[s].activations, std::min(m, k));
        EXPECT_EQ(stash("gems:times=3,microbatches={}")[s], (Stash{m, m}));
      }
      const auto folded = stash("1f1b:folded=on,microbatches={}");
      for (int s = 0; s < 2 * k; ++s) EXPECT_EQ(folded[s].activations, std::min(m, 2 * k - s));
    }
}

TEST(Forecast, AnInterleavedWorkerKeepsLittleMoreThanOneOf1F1B) {
  for (int k = 2; k <= 8; ++k)
    for (const int chunks : {2, 3, 4}) {
      const auto schedule =
          pipeline_schedule(fmt::format("interleaved:microbatches={},chunks={}", 4 * k, chunks), k);
      const std::vector<StashBytes> bytes(schedule.stages, {1, 0});
      // In micro-batches of a whole worker, which holds `chunks` stages.
      const double kept = static_cast<double>(peak_stash_bytes(schedule, bytes)[0]) / chunks;
      EXPECT_NEAR(kept, k * (1 + (k - 1.0) / (k * chunks)), 1e-9);
    }
}

// While the second replica's activations grow on a worker, the first one's are gone.
TEST(Forecast, GemsKeepsOneBatchOfActivationsAWorker) {
  for (int k = 1; k <= 8; ++k) {
    const auto schedule = pipeline_schedule("gems:times=4,microbatches=3", k);
    for (const auto peak : peak_stash_bytes(schedule, std::vector<StashBytes>(k, {1, 0})))
      EXPECT_EQ(peak, 3u);
  }
}

TEST(Forecast, CountsMessagesOfEachLink) {
  const std::vector<StageLink> chain = {{0, 1, 0, 10}, {1, 2, 0, 20}, {2, 3, 0, 30}, {0, 3, 0, 7}};
  const auto traffic = [&](const char* spec, int workers) {
    const PipelineSchedule schedule = pipeline_schedule(spec, workers);
    std::vector<std::uint64_t> messages;
    for (const LinkTraffic& link : forecast(schedule, std::vector<PassTimes>(4), chain).traffic) {
      messages.push_back(link.messages);
      EXPECT_EQ(link.bytes, link.messages * chain[messages.size() - 1].bytes);
    }
    return messages;
  };
  EXPECT_THAT(traffic("1f1b:microbatches=6", 4), ElementsAre(12u, 12u, 12u, 12u));
  // Folded: stages 1 and 2 share a worker, and so do both ends of the skip.
  EXPECT_THAT(traffic("gpipe:microbatches=6,folded=on", 2), ElementsAre(12u, 0u, 12u, 0u));
  // Two chunks on 2 workers: (pv-1)/(p-1) = 3 times the messages of one cut.
  EXPECT_THAT(traffic("interleaved:microbatches=6", 2), ElementsAre(12u, 12u, 12u, 12u));
  EXPECT_THAT(traffic("gems:times=3,microbatches=2", 4), ElementsAre(24u, 24u, 24u, 24u));
}

TEST(Forecast, MessagesDelayWhoWaitsForThem) {
  const PipelineSchedule plain = pipeline_schedule("plain", 3);
  const std::vector<PassTimes> times(3, {1, 1, 1});
  EXPECT_DOUBLE_EQ(
      forecast(plain, times, std::vector<StageLink>{{0, 1, 0.5}, {1, 2, 0.25}}).makespan_s,
      9 + 2 * 0.75);
  // A skip of 5 s is later than the main path: its forward 5 - 1.75, and its gradient 5 - 2 - 0.75.
  const Forecast with_skip =
      forecast(plain, times, std::vector<StageLink>{{0, 1, 0.5}, {1, 2, 0.25}, {0, 2, 5}});
  EXPECT_DOUBLE_EQ(with_skip.makespan_s, 1 + 5 + 3 + 5 + 2);
}

TEST(Forecast, ASlowStageSetsThePace) {
  const PipelineSchedule schedule = pipeline_schedule("1f1b:microbatches=16", 4);
  std::vector<PassTimes> times(4, {1, 1, 1});
  times[2] = {2, 2, 2};
  const Forecast slow = forecast(schedule, times);
  // It waits for the first forward to come, for the first backward, and for the last one to go.
  EXPECT_NEAR(slow.idle_s[2], 2 + 1 + 4, 1e-9);
  EXPECT_NEAR(slow.makespan_s, 16 * 6 + 2 + 1 + 4, 1e-9);
}

TEST(Forecast, NamesWhoWouldWaitForever) {
  PipelineSchedule schedule = pipeline_schedule("1f1b:microbatches=2", 2);
  std::swap(schedule.orders[1][0], schedule.orders[1][1]);  // backward before forward
  try {
    (void)forecast(schedule, std::vector<PassTimes>(2));
    FAIL() << "taken";
  } catch (const InternalError& e) {
    EXPECT_STREQ(e.what(),
                 "worker 0 would wait forever for the backward of micro-batch 0 at stage 0");
  }
}

TEST(Forecast, RefusesCostsOfAnotherPipeline) {
  const PipelineSchedule schedule = pipeline_schedule("plain", 2);
  EXPECT_THROW((void)forecast(schedule, std::vector<PassTimes>(3)), UsageError);
  for (const StageLink& link : {StageLink{1, 0}, StageLink{0, 2}, StageLink{-1, 1}})
    EXPECT_THROW((void)forecast(schedule, std::vector<PassTimes>(2), std::vector{link}),
                 UsageError);
}

// Folding costs nothing: two stages of a worker together are as one of twice the time, or better.
TEST(Forecast, FoldedPipelinesHaveNoLargerBubble) {
  for (const char* spec :
       {"gpipe:recompute=off,folded=on,microbatches={}", "1f1b:folded=on,microbatches={}"})
    for (const int m : {8, 16, 32})
      for (int k = 1; k <= 4; ++k) {
        const Forecast folded = even(fmt::format(fmt::runtime(spec), m), k, {1, 1, 1});
        EXPECT_LE(folded.bubble(), (k - 1.0) / (m + k - 1) + 1e-9) << spec << m << " on " << k;
      }
}

}  // namespace
}  // namespace lockstep
