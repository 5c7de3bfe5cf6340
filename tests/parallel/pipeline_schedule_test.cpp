// The orders of small pipelines as the papers draw them, and what is refused.
#include "parallel/pipeline_schedule.h"

#include <gmock/gmock.h>

#include "parallel/refusal.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "F0.1" is forward of micro-batch 1 at stage 0; the second replica has small letters.
std::vector<std::string> drawn(const PipelineSchedule& schedule) {
  std::vector<std::string> lines;
  for (const auto& order : schedule.orders) {
    std::string line;
    for (const Action& action : order) {
      const char letter = (action.replica == 0 ? "FRBIW" : "frbiw")[static_cast<int>(action.pass)];
      line += fmt::format("{}{}{}.{}", line.empty() ? "" : " ", letter, action.stage, action.micro);
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(PipelineSchedule, OrdersAreThoseOfThePapers) {
  EXPECT_THAT(drawn(pipeline_schedule("plain:microbatches=2", 2)),
              ElementsAre("F0.0 B0.0 F0.1 B0.1", "F1.0 B1.0 F1.1 B1.1"));
  EXPECT_THAT(drawn(pipeline_schedule("gpipe:microbatches=2", 2)),
              ElementsAre("F0.0 F0.1 R0.0 B0.0 R0.1 B0.1", "F1.0 F1.1 R1.0 B1.0 R1.1 B1.1"));
  EXPECT_THAT(drawn(pipeline_schedule("1f1b:microbatches=4", 3)),
              ElementsAre("F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3",
                          "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3",
                          "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3"));
  EXPECT_THAT(drawn(pipeline_schedule("zb-h1:microbatches=3", 2)),
              ElementsAre("F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2",
                          "F1.0 I1.0 F1.1 I1.1 W1.0 F1.2 I1.2 W1.1 W1.2"));
  EXPECT_THAT(drawn(pipeline_schedule("interleaved:microbatches=2,chunks=2", 2)),
              ElementsAre("F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1",
                          "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"));
  EXPECT_THAT(drawn(pipeline_schedule("gems:times=2", 2)),
              ElementsAre("F0.0 B0.0 f1.0 b1.0 F0.1 B0.1 f1.1 b1.1",
                          "F1.0 B1.0 f0.0 b0.0 F1.1 B1.1 f0.1 b0.1"));
}

TEST(PipelineSchedule, AFoldedWorkerMergesTheOrdersOfItsTwoStages) {
  EXPECT_THAT(drawn(pipeline_schedule("plain:folded=on", 2)),
              ElementsAre("F0.0 F3.0 B3.0 B0.0", "F1.0 F2.0 B2.0 B1.0"));
  // Each of the two stages keeps its own order of 1f1b.
  EXPECT_THAT(drawn(pipeline_schedule("1f1b:folded=on,microbatches=2", 1)),
              ElementsAre("F0.0 F1.0 B1.0 F0.1 B0.0 F1.1 B1.1 B0.1"));
}

TEST(PipelineSchedule, TellsWhatAStepTakes) {
  const PipelineSchedule gems = pipeline_schedule("gems:times=3,microbatches=2", 4);
  EXPECT_EQ(gems.replicas, 2);
  EXPECT_EQ(gems.batches, 3);
  EXPECT_EQ(gems.micros, 6);
  EXPECT_EQ(gems.layout(5), Layout::gems(10, 4));
  EXPECT_EQ(pipeline_schedule("interleaved:chunks=3", 4).layout(2), Layout::interleaved(2, 12, 4));
  EXPECT_EQ(pipeline_schedule("gpipe:folded=on", 4).layout(2), Layout::folded(2, 8));
  EXPECT_EQ(pipeline_schedule("zb-h1", 4).layout(3), Layout::grid(3, 4));
  EXPECT_EQ(pipeline_schedule("zb-h1", 3).micros, 12);
  EXPECT_EQ(pipeline_schedule("fill-drain:microbatches=5", 3).micros, 5);
}

TEST(PipelineSchedule, RequestsAreNumbersWithASchedule) {
  const auto read = [](const char* text) {
    const PipelineRequest request = read_pipeline(text);
    return fmt::format("{} {}", request.workers, request.spec);
  };
  EXPECT_EQ(read("4"), "4 1f1b");
  EXPECT_EQ(read("4:schedule=gpipe"), "4 gpipe");
  EXPECT_EQ(read("3:microbatches=6,schedule=interleaved,chunks=4"),
            "3 interleaved:chunks=4,microbatches=6");
  EXPECT_EQ(read("2:microbatches=8"), "2 1f1b:microbatches=8");
}

TEST(PipelineSchedule, RefusesInOneSentence) {
  const auto refusal = [](const char* spec, int workers) {
    return refusal_of([&] { (void)pipeline_schedule(spec, workers); });
  };
  EXPECT_EQ(
      refusal("interleaved:microbatches=6", 4),
      "interleaved with 6 micro-batches on 4 workers: micro-batches pass the chunks in groups "
      "of one a worker, so their number must be a multiple of 4");
  EXPECT_EQ(refusal("interleaved:chunks=1", 4),
            "chunks of 'interleaved' (1 would be 1f1b) must be a whole number from 2 to 1024, not "
            "'1'");
  EXPECT_EQ(refusal("gems:times=0", 4),
            "times of 'gems' must be a whole number from 1 to 4096, not '0'");
  EXPECT_THAT(refusal("gpipe:microbatches=-1", 4), HasSubstr("microbatches of 'gpipe'"));
  EXPECT_EQ(refusal("1f1b", 0), "a pipeline of 0 workers: there must be 1 to 65536");
  EXPECT_THAT(refusal("gpip", 2), HasSubstr("did you mean 'gpipe'?"));
  EXPECT_THAT(refusal("zb-h1:folded=on", 2), HasSubstr("folded"));
  EXPECT_THAT(refusal_of([] { (void)read_pipeline("four"); }), HasSubstr("--pipeline"));
  EXPECT_THAT(refusal_of([] { (void)read_pipeline("4:schedul=gpipe"); }), HasSubstr("schedule"));
}

}  // namespace
}  // namespace lockstep
