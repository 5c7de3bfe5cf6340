#include "bench/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/report.h"

namespace lockstep::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers with the times it was given, turn by turn.
class Scripted : public Engine {
 public:
  Scripted(std::string name, std::vector<double> times_us)
      : name_(std::move(name)), times_us_(std::move(times_us)) {}
  const std::string& name() const override { return name_; }
  Result measure(const Work& work) override {
    asked_.push_back(work);
    const double time = times_us_.at(asked_.size() - 1);
    return {{time, time, time}, {}, 0, 8, 4, "shared"};
  }
  std::vector<Work> asked_;

 private:
  const std::string name_;
  const std::vector<double> times_us_;
};

class Contest : public ::testing::Test {
 protected:
  std::vector<Measured> run() {
    return compare(contenders_, work_, 3,
                   [&](const Contender& c, int) { turns_.push_back(c.engine->name()); });
  }

  Scripted ours_{"lockstep", {10, 11, 30}}, theirs_{"openmpi", {60, 77, 150}};
  const std::vector<Contender> contenders_{{&ours_, "auto", "shm", true},
                                           {&theirs_, "default", "default", false}};
  const Work work_{Operation::allreduce, "", Type::fp32, 100 << 20, 1, 3};
  std::vector<std::string> turns_;
};

TEST_F(Contest, EnginesTakeTurns) {
  run();
  EXPECT_THAT(turns_,
              ElementsAre("lockstep", "openmpi", "lockstep", "openmpi", "lockstep", "openmpi"));
  EXPECT_EQ(ours_.asked_[0].collective, "auto");
  EXPECT_EQ(theirs_.asked_[0].collective, "default");
}

TEST_F(Contest, MedianIsOverAllIterationsAndSpreadOverRepeats) {
  const auto line = nlohmann::json::parse(json_line(run()[0], 2));
  EXPECT_EQ(line["op"], "allreduce");
  EXPECT_EQ(line["engine"], "lockstep");
  EXPECT_EQ(line["collective"], "auto");
  EXPECT_EQ(line["chosen"], "shared");
  EXPECT_EQ(line["time_us"], 11);
  EXPECT_EQ(line["time_us_min_repeat"], 10);
  EXPECT_EQ(line["time_us_max_repeat"], 30);
  EXPECT_EQ(line["bytes_sent_total"], 8);
  EXPECT_EQ(line["bytes_sent_busiest"], 4);
  EXPECT_EQ(line["wrong"], 0);
  EXPECT_DOUBLE_EQ(line["busbw_GBps"].get<double>(), (100 << 20) / 11.0 / 1e3);
}

TEST_F(Contest, RatioInWordsBothWays) {
  const auto rows = run();
  EXPECT_EQ(ratio_sentence(rows[0], rows[1], 2),
            "auto is 6.00x (5.00..7.00) faster than openmpi at 100 MiB on 2 ranks");
  EXPECT_THAT(ratio_sentence(rows[1], rows[0], 2),
              HasSubstr("6.00x (5.00..7.00) slower than auto"));
}

TEST_F(Contest, RatioAsJson) {
  const auto rows = run();
  const auto line = nlohmann::json::parse(ratio_json_line(rows[0], rows[1], 2));
  EXPECT_EQ(line["op"], "ratio");
  EXPECT_EQ(line["against"], "openmpi");
  EXPECT_EQ(line["ratio"], 6);
  EXPECT_EQ(line["ratio_min"], 5);
  EXPECT_EQ(line["ratio_max"], 7);
}

TEST_F(Contest, UnknownFiguresAreNullAndNotZero) {
  Measured row = run()[0];
  row.wrong.reset();
  EXPECT_TRUE(nlohmann::json::parse(json_line(row, 2))["wrong"].is_null());
  EXPECT_THAT(table_row(row, 2), HasSubstr("N/A"));
}

TEST_F(Contest, TimesOfMemcpyAreTakenRepeatByRepeat) {
  Measured row = run()[0];
  EXPECT_EQ(times_of_memcpy(row), std::nullopt);
  row.memcpy_medians_us = {5, 2, 10};
  EXPECT_THAT(table_row(row, 3), HasSubstr("3.00x (2.00..5.50)"));
  row.work.operation = Operation::pushpull;
  row.work.servers = 1;
  const auto line = nlohmann::json::parse(json_line(row, 3));
  EXPECT_EQ(line["op"], "pushpull");
  EXPECT_EQ(line["strategy"], "auto");
  EXPECT_TRUE(line["collective"].is_null());
  EXPECT_EQ(line["workers"], 2);
  EXPECT_EQ(line["servers"], 1);
  EXPECT_EQ(line["memcpy_us"], 5);
  EXPECT_EQ(line["memcpy_ratio"], 3);
  EXPECT_EQ(line["memcpy_ratio_min"], 2);
  EXPECT_EQ(line["memcpy_ratio_max"], 5.5);
  EXPECT_DOUBLE_EQ(line["busbw_GBps"].get<double>(), 2 * (100 << 20) / 11.0 / 1e3);
}

TEST(Report, SizesInWords) {
  EXPECT_EQ(size_in_words(4096), "4 KiB");
  EXPECT_EQ(size_in_words(1000), "1000 bytes");
  EXPECT_EQ(size_in_words(104857600), "100 MiB");
}

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({7}), 7);
}

TEST(Statistics, PercentileInterpolatesBetweenNeighbours) {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  EXPECT_DOUBLE_EQ(percentile(hundred, 99), 99.01);
  EXPECT_DOUBLE_EQ(percentile(hundred, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(hundred, 100), 100);
}

TEST(Statistics, SpreadHasMiddleAndExtremes) {
  const std::vector<double> values{5, 9, 1};
  const Spread s = spread(values);
  EXPECT_DOUBLE_EQ(s.median, 5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 9);
}

TEST(Statistics, RatioIsTakenRepeatByRepeat) {
  // The second repeat hit a busy moment: both took ten times as long, and the ratio does not show
  // it.
  const std::vector<double> theirs{60, 600, 66}, ours{10, 100, 12};
  const Spread r = ratio(theirs, ours);
  EXPECT_DOUBLE_EQ(r.median, 6);
  EXPECT_DOUBLE_EQ(r.min, 5.5);
  EXPECT_DOUBLE_EQ(r.max, 6);
}

TEST(Statistics, BandwidthIsInUnitsOfTenToTheNine) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second(1e9, 1e6), 1);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(4096, 0), 0);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(2), 1);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(4), 1.5);
  EXPECT_DOUBLE_EQ(all_reduce_bus_factor(1), 0);
}

}  // namespace
}  // namespace lockstep::bench
