// Figures of pages, drawn from the CSV beside them.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "core/error.h"
#include "study/chart.h"

namespace lockstep::study {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(CsvTable, ReadsWhatIsQuoted) {
  const CsvTable table = csv_table("a,b\r\n\"1,\"\"x\"\"\",2\r\n,\r\n", "t.csv");
  EXPECT_THAT(table.columns, ElementsAre("a", "b"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(table.rows[0], ElementsAre("1,\"x\"", "2"));
  EXPECT_THAT(table.rows[1], ElementsAre("", ""));
}

TEST(CsvTable, NamesWhatIsWrong) {
  EXPECT_THAT([] { csv_table("a,b\n1\n", "t.csv"); },
              ThrowsMessage<UsageError>(HasSubstr("t.csv: row 1 has 1 fields, and its header 2")));
  EXPECT_THAT([] { csv_table("a\n\"1\n", "t.csv"); },
              ThrowsMessage<UsageError>(HasSubstr("t.csv ends within quotes")));
  EXPECT_THROW(csv_table("", "t.csv"), UsageError);
}

constexpr const char* kResults =
    "run,variant,tuning_trial,seed,status,commit,workers,score\n"
    "1,\"ring, workers 2, rate 1Gbps\",no,1,done,abc,2,0.90\n"
    "2,\"ring, workers 2, rate 1Gbps\",no,2,done,abc,2,0.92\n"
    "3,\"ring, workers 2, rate 1Gbps\",no,3,done,abc,2,0.94\n"
    "4,\"ring, workers 8, rate 1Gbps\",no,1,done,abc,8,0.80\n"
    "5,\"ring, workers 8, rate 1Gbps\",no,2,failed,abc,8,0.10\n"
    "6,\"tree, workers 8, rate 1Gbps\",no,1,done,abc,8,0.70\n"
    "7,\"tree, workers 8, rate 9Gbps\",no,1,done,abc,8,0.60\n"
    "8,\"tree, workers 8, rate 9Gbps\",yes,1,done,abc,8,0.50\n";

Chart of_results(ChartRequest request) {
  return chart_of(csv_table(kResults, "t.csv"), request, "t.csv");
}

TEST(CsvChart, IsOfMeansOverTheRunsThatAreDone) {
  ChartRequest request;
  request.x = "workers";
  request.where = {"rate=1Gbps"};
  const Chart chart = of_results(request);
  EXPECT_EQ(chart.y_label, "accuracy");
  EXPECT_TRUE(chart.y_percent);
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_EQ(chart.series[0].name, "ring");
  ASSERT_EQ(chart.series[0].points.size(), 2u);
  EXPECT_EQ(chart.series[0].points[0].x, 2);
  EXPECT_NEAR(chart.series[0].points[0].y.mean, 0.92, 1e-12);
  EXPECT_TRUE(chart.series[0].points[0].y.low);
  EXPECT_NEAR(chart.series[0].points[1].y.mean, 0.80, 1e-12);
  EXPECT_FALSE(chart.series[0].points[1].y.low) << "one run has no interval";
  EXPECT_THAT(chart.caption, HasSubstr("Commit abc."));
}

TEST(CsvChart, TakesAnAxisFromTheLabels) {
  ChartRequest request;
  request.x = "rate";
  request.where = {"workers=8"};
  const Chart chart = of_results(request);
  EXPECT_THAT(chart.x_names, ElementsAre("1Gbps", "9Gbps"));
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_EQ(chart.series[1].name, "tree");
  EXPECT_NEAR(chart.series[1].points[1].y.mean, 0.60, 1e-12) << "without the trial of tuning";
}

TEST(CsvChart, KeepsSimulatedVariantsApart) {
  const CsvTable table = csv_table(
      "variant,score\n\"ring, workers 2\",0.5\n\"ring, workers 2 (simulated)\",0.6\n", "t.csv");
  ChartRequest request;
  request.x = "workers";
  const Chart chart = chart_of(table, request, "t.csv");
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_EQ(chart.series[1].name, "ring (simulated)");
  EXPECT_EQ(chart.series[1].points[0].x, 2);
}

TEST(CsvChart, WithoutXHasABarForEachVariant) {
  const Chart chart = of_results({});
  EXPECT_TRUE(chart.bars);
  EXPECT_EQ(chart.series.size(), 4u);
  EXPECT_THAT(svg_of(chart), HasSubstr("ring, workers 2, rate 1Gbps"));
}

TEST(CsvChart, PutsTheBarOfASimulatedRunBelowTheMeasuredOne) {
  const CsvTable table = csv_table(
      "variant,score\nring,0.5\ntree,0.6\ntree (simulated),0.7\nring (simulated),0.8\n", "t.csv");
  std::vector<std::string> names;
  for (const ChartSeries& series : chart_of(table, {}, "t.csv").series)
    names.push_back(series.name);
  EXPECT_THAT(names, ElementsAre("ring", "ring (simulated)", "tree", "tree (simulated)"));
}

TEST(CsvChart, OfCurvesIsOfMeansAtEachStep) {
  const CsvTable table = csv_table(
      "run,variant,seed,step,seconds,score\n1,ring,1,10,1.0,0.5\n1,ring,1,20,2.0,0.7\n"
      "2,ring,2,10,1.2,0.6\n2,ring,2,20,2.2,0.8\n",
      "c.csv");
  ChartRequest request;
  request.x = "seconds";
  const Chart chart = chart_of(table, request, "c.csv");
  ASSERT_EQ(chart.series.size(), 1u);
  ASSERT_EQ(chart.series[0].points.size(), 2u);
  EXPECT_NEAR(chart.series[0].points[1].x, 2.1, 1e-12);
  EXPECT_NEAR(chart.series[0].points[1].y.mean, 0.75, 1e-12);
}

// A tuned variant whose best flags are the untuned ones' shares its runs.
constexpr const char* kShared =
    "variant,status,strategy,workers,score,step_seconds\n"
    "\"ssp, workers 4, slow none | ssp, workers 4, slow none, tuned\",done,s,4,0.9,1\n"
    "\"ssp, workers 4, slow none | ssp, workers 4, slow none, tuned\",done,s,4,0.8,1\n"
    "\"ssp, workers 8, slow none\",done,s,8,0.5,1\n"
    "\"ssp, workers 8, slow none, tuned\",done,s,8,0.7,1\n";

Chart of_shared(ChartRequest request) {
  return chart_of(csv_table(kShared, "t.csv"), request, "t.csv");
}

TEST(CsvChart, ShowsARunInEachVariantThatItServes) {
  ChartRequest request;
  request.x = "workers";
  request.where = {"slow=none"};
  const Chart chart = of_shared(request);
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_EQ(chart.series[0].name, "ssp");
  EXPECT_EQ(chart.series[1].name, "ssp, tuned");
  for (const ChartSeries& series : chart.series) {
    ASSERT_EQ(series.points.size(), 2u) << series.name;
    EXPECT_NEAR(series.points[0].y.mean, 0.85, 1e-12) << series.name;
  }
  EXPECT_NEAR(chart.series[1].points[1].y.mean, 0.7, 1e-12);
}

TEST(CsvChart, TakesTunedVariantsAlone) {
  ChartRequest request;
  request.x = "workers";
  request.where = {"slow=none", "tuned=yes"};
  const Chart chart = of_shared(request);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].name, "ssp");
  EXPECT_NEAR(chart.series[0].points.at(1).y.mean, 0.7, 1e-12);
}

TEST(CsvChart, CountsARunOnceInAPoint) {
  ChartRequest request;
  request.x = "workers";
  request.series = "strategy";
  const Chart chart = of_shared(request);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].points.at(0).y.n, 2u);
}

TEST(CsvChart, SaysWhenRunsAreTooFewForAnInterval) {
  ChartRequest request;
  request.x = "workers";
  request.where = {"tuned=yes"};
  EXPECT_THAT(of_shared(request).caption, HasSubstr("too few for an interval"));
}

TEST(CsvChart, HasTheUnitAtTheAxisAndNotInTheTitle) {
  ChartRequest request;
  request.x = "workers";
  request.y = "step_seconds";
  const Chart chart = of_shared(request);
  EXPECT_EQ(chart.y_label, "time a step, s");
  EXPECT_EQ(chart.title, "time a step over workers");
}

TEST(CsvChart, NamesWhatIsNotThere) {
  ChartRequest request;
  request.y = "scroe";
  EXPECT_THAT([&] { of_results(request); }, ThrowsMessage<UsageError>(HasSubstr("score")));
  request = {};
  request.x = "speed";
  EXPECT_THAT([&] { of_results(request); }, ThrowsMessage<UsageError>(HasSubstr("speed")));
  request = {};
  request.where = {"workers=3"};
  EXPECT_THAT([&] { of_results(request); }, ThrowsMessage<UsageError>(HasSubstr("no row")));
}

TEST(SvgChart, SaysNothingThatIsMarkup) {
  Chart chart;
  chart.title = "a < b & c";
  chart.series = {{"<script>", {{1, estimate({2})}, {10, estimate({3})}}},
                  {"x", {{1, estimate({4})}}}};
  const std::string svg = svg_of(chart);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(SvgChart, WritesZeroWithoutASign) {
  Chart chart;
  chart.y_percent = true;
  chart.series = {{"x", {{1, estimate({0.1})}, {10, estimate({0.9})}}}};
  const std::string svg = svg_of(chart);
  EXPECT_THAT(svg, HasSubstr(">0 %<"));
  EXPECT_THAT(svg, Not(HasSubstr("-0 %")));
}

TEST(SvgChart, DrawsNoTwoLinesAlike) {
  Chart chart;
  for (int i = 0; i < 22; ++i)
    chart.series.push_back({std::to_string(i), {{1, estimate({2})}, {10, estimate({3})}}});
  const std::string svg = svg_of(chart);
  std::set<std::string> looks;
  const std::regex line("<path d=\"[^\"]*\" fill=\"none\" (stroke=[^>]*)/>");
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at)
    EXPECT_TRUE(looks.insert((*at)[1]).second) << (*at)[1] << " comes twice";
  EXPECT_EQ(looks.size(), 22u);
}

}  // namespace
}  // namespace lockstep::study
