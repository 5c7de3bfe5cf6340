// Charts say who does what when, in as many columns as there are.
#include "parallel/gantt.h"

#include <gmock/gmock.h>

#include <sstream>

#include "parallel/schedules.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string chart(const char* spec, int workers, const PassTimes& times, int columns = 100) {
  const PipelineSchedule schedule = pipeline_schedule(spec, workers);
  return gantt(schedule, forecast(schedule, std::vector(schedule.stages, times)), columns);
}

TEST(Gantt, DrawsActionsInTime) {
  EXPECT_EQ(
      chart("gpipe:microbatches=3,recompute=off", 2, {0.001, 0.001, 0.001}),
      "worker 0 |F0F1F2......B0==B1==B2==|\n"
      "worker 1 |..F0F1F2B0==B1==B2==....|\n"
      "F forward, B backward, with the micro-batch's number; '=' goes on, '.' waits; a column "
      "is 0.5 ms,\nall is 12 ms, bubble 25.0 %\n");
}

TEST(Gantt, DistinguishesPassesAndRoles) {
  EXPECT_THAT(chart("gems", 2, {1, 1, 1}), StartsWith("worker 0 |F0......B0==f0b0==....|\n"));
  EXPECT_THAT(chart("gems", 2, {1, 1, 1}), HasSubstr("the other way"));
  const std::string split = chart("zb-h1:microbatches=2", 2, {1, 1, 1});
  EXPECT_THAT(split, HasSubstr("|..F0I0F1I1W0W1|"));
  EXPECT_THAT(split, HasSubstr("I backward of inputs, W backward of weights"));
  EXPECT_THAT(split, Not(HasSubstr("B backward,")));
  EXPECT_THAT(chart("gpipe:microbatches=2", 2, {1, 1, 1}), HasSubstr("R recompute"));
}

TEST(Gantt, KeepsWithinItsColumns) {
  for_all_schedules([](const std::string& name, const PipelineSchedule& schedule) {
    SCOPED_TRACE(name);
    const Forecast forecast = lockstep::forecast(
        schedule, std::vector<PassTimes>(schedule.stages, {0.011, 0.013, 0.007}));
    for (const int columns : {60, 100, 400}) {
      std::istringstream lines(gantt(schedule, forecast, columns));
      int workers = 0;
      for (std::string line; std::getline(lines, line); workers += line.starts_with("worker "))
        EXPECT_LE(std::ssize(line), columns) << line;
      EXPECT_EQ(workers, schedule.workers);
    }
  });
}

TEST(Gantt, SaysHowManyActionsItCouldNotShow) {
  EXPECT_THAT(chart("1f1b:microbatches=200", 2, {1, 1, 1}), HasSubstr("actions are too"));
  EXPECT_THAT(chart("1f1b:microbatches=200", 2, {1, 1, 1}, 4000),
              Not(HasSubstr("actions are too")));
  EXPECT_THAT(chart("1f1b:microbatches=4", 2, {0, 0, 0}), HasSubstr("actions are too"));
}

}  // namespace
}  // namespace lockstep
