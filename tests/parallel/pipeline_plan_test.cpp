// Plans fit their limit, or say with numbers why there is none.
#include "parallel/pipeline_plan.h"

#include <gmock/gmock.h>

#include "parallel/refusal.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Fast and large blocks first.
NetworkCosts network() {
  NetworkCosts network;
  for (int b = 0; b < 6; ++b)
    network.blocks.push_back(
        {fmt::format("b{}", b), {0.001 * (1 + b), 0.001, 0.001}, 1000, 1000ull * (6 - b), 500});
  network.skips = {{"skip", 0, 5, 200}};
  return network;
}

PipelinePlan plan(const char* spec, int workers, const PlanRequest& request,
                  const CutTerms& terms = {1e-6, 1e-3, 2}) {
  return plan_pipeline(network(), pipeline_schedule(spec, workers), terms, request);
}

TEST(PipelinePlan, AWorkerWithOneStageNeedsWhatThatStageNeeds) {
  for (const char* spec : {"plain", "gpipe", "gpipe:recompute=off", "1f1b", "zb-h1"})
    for (int workers = 1; workers <= 6; ++workers) {
      const PipelinePlan made = plan(spec, workers, {"memory", {}});
      for (int w = 0; w < workers; ++w)
        EXPECT_EQ(made.worker_bytes[w], made.stages[w].memory_bytes) << spec;
    }
}

TEST(PipelinePlan, AGemsWorkerHoldsTheParametersOfTwoStagesAndOneBatchOfActivations) {
  const PipelinePlan made = plan("gems", 2, {"2,4", {}});
  // Twice 6,000 of parameters; 11,000 of activations at stage 0, 10,700 with the inputs at stage 1.
  EXPECT_THAT(made.worker_bytes, ElementsAre(23000u, 23000u));
}

TEST(PipelinePlan, TakesTheFastestCutThatFits) {
  const PipelinePlan free = plan("plain", 2, {"time", {}});
  EXPECT_THAT(free.counts, ElementsAre(4, 2));
  EXPECT_EQ(free.notice, "");
  // 2 x 4000 + 18000 bytes are too many, 2 x 3000 + 15000 are not.
  const PipelinePlan limited = plan("plain", 2, {"time", 25000});
  EXPECT_THAT(limited.counts, ElementsAre(3, 3));
  const std::string what_fits =
      "2 of the 5 cuts of 6 blocks into 2 stages fit, and the fastest that fits, 3,3, needs 21.0 "
      "KB "
      "on worker 0";
  EXPECT_EQ(limited.notice,
            "the best cut by time, 4,2, needs 26.0 KB on worker 0, and the limit is 25.0 KB: " +
                what_fits);
  EXPECT_EQ(refusal_of([] {
              (void)plan("plain", 2, {"4,2", 25000});
            }),
            "the cut 4,2 needs 26.0 KB on worker 0, and the limit is 25.0 KB: " + what_fits);
  EXPECT_EQ(refusal_of([] {
              (void)plan("plain", 2, {"time", 9000});
            }),
            "none of the 5 cuts of 6 blocks into 2 stages fits in 9.0 KB: the smallest, 2,4, needs "
            "18.7 KB on worker 1");
}

TEST(PipelinePlan, FindsCutsForWorkersOfSeveralStages) {
  for (const char* spec : {"gems:times=2", "1f1b:folded=on", "interleaved"}) {
    SCOPED_TRACE(spec);
    for (const char* balance : {"time", "memory"}) {
      const PipelinePlan free = plan(spec, 2, {balance, {}});
      const std::uint64_t needed = std::ranges::max(free.worker_bytes);
      EXPECT_EQ(plan(spec, 2, {balance, needed}).counts, free.counts);
      EXPECT_THAT(refusal_of([&] {
                    (void)plan(spec, 2, {balance, 1000});
                  }),
                  HasSubstr("fits in 1.0 KB: the smallest"));
    }
    const std::uint64_t least = std::ranges::max(plan(spec, 2, {"memory", {}}).worker_bytes);
    EXPECT_LE(std::ranges::max(plan(spec, 2, {"time", least}).worker_bytes), least);
  }
}

TEST(PipelinePlan, PredictsTheStep) {
  const PipelinePlan made = plan("1f1b:microbatches=8", 3, {"2,2,2", {}});
  std::vector<PassTimes> times;
  for (const StageCosts& stage : made.stages) times.push_back(stage.times);
  // Messages of 500 bytes take 1.5 ms; that of the skip, of 200, 1.2 ms.
  const Forecast expected = forecast(
      made.schedule, times, std::vector<StageLink>{{0, 1, 1.5e-3}, {1, 2, 1.5e-3}, {0, 2, 1.2e-3}});
  EXPECT_DOUBLE_EQ(made.forecast.makespan_s, expected.makespan_s);

  const std::string text = in_words(made, network(), 32);
  EXPECT_THAT(text, HasSubstr("2..3 b2..b3"));
  EXPECT_THAT(text, HasSubstr(fmt::format("{:.1f} samples/s", 32 / expected.makespan_s)));
  EXPECT_THAT(in_words(plan("gems:times=4", 2, {}), network(), 32),
              HasSubstr("a step of 256 samples"));
}

}  // namespace
}  // namespace lockstep
