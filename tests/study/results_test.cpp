// results.csv as other programs read it.
#include "study/results.h"

#include <gmock/gmock.h>

#include "study/pretended.h"

namespace lockstep::study {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Csv, QuotesWhatWouldBreakALine) {
  EXPECT_EQ(csv_line({"a", "b,c", "say \"x\"", "two\nlines", ""}),
            "a,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",\r\n");
}

std::vector<std::string> lines_of(const std::string& csv) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < csv.size();) {
    const std::size_t end = csv.find("\r\n", at);
    lines.push_back(csv.substr(at, end - at));
    at = end + 2;
  }
  return lines;
}

TEST(Results, HaveARowForEveryRunAlsoOneThatFailed) {
  Study study = plan_from_text("[repeat]\nseeds = [1, 2]\n");
  study.runs[0].status = "done";
  study.runs[1].status = "failed";
  study.runs[1].reason = "rank 1 died, alas";
  Records records;
  records[study.runs[0].id].status = "done";
  records[study.runs[0].id].result = result_json(0.5);
  records[study.runs[1].id];
  const auto lines = lines_of(results_csv(study, records));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], StartsWith("run,variant,tuning_trial,seed,status,reason,wall_seconds,"));
  EXPECT_THAT(lines[0], HasSubstr(",bytes_per_step,"));
  EXPECT_THAT(lines[1], HasSubstr(",0.5,"));
  EXPECT_THAT(lines[1], HasSubstr(",200,")) << "bytes a step: 2 ranks, 1000 bytes in 10 steps";
  EXPECT_THAT(lines[2], HasSubstr("\"rank 1 died, alas\""));
  EXPECT_THAT(lines[2], HasSubstr("lockstep train --seed 2"));
}

TEST(Results, SayWhatMadeThemAndWhereTheCurveIs) {
  Study study = plan_from_text("[repeat]\nseeds = [7]\n");
  Records records;
  RunRecord& record = records[study.runs[0].id];
  record.status = "done";
  record.facts = {{"commit", "0123456789ab"}};
  record.result = result_json(0.5);
  record.curve = {{{"epoch", 1}, {"step", 10}, {"seconds", 2.5}, {"score", 0.5}, {"loss", 1.25}}};
  const auto rows = lines_of(results_csv(study, records, "t-curves.csv"));
  EXPECT_THAT(rows[0], HasSubstr(",commit,curve_file,"));
  EXPECT_THAT(rows[1], HasSubstr(",0123456789ab,t-curves.csv,"));
  EXPECT_THAT(rows[1], HasSubstr("lockstep train --seed 7"));
  const auto points = lines_of(curves_csv(study, records));
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0],
            "run,variant,seed,epoch,step,seconds,bytes,score,loss,train_loss,consensus_distance,"
            "dice");
  EXPECT_EQ(points[1], study.runs[0].id + ",train,7,1,10,2.5,,0.5,1.25,,,");
}

TEST(Results, OfABenchmarkHaveARowForEveryMeasurement) {
  Study study = plan_from_text("");
  study.command = "bench allreduce";
  Records records;
  records[study.runs[0].id].result = {{"rows",
                                       {{{"op", "allreduce"}, {"bytes", 64}, {"time_us", 1.5}},
                                        {{"op", "ratio"}, {"bytes", 64}},
                                        {{"op", "allreduce"}, {"bytes", 128}, {"time_us", 2.5}}}}};
  const auto lines = lines_of(results_csv(study, records));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[2], HasSubstr(",128,2.5,"));
}

}  // namespace
}  // namespace lockstep::study
