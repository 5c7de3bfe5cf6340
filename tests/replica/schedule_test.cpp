#include "replica/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr ScheduleInput kPlain{.base_lr = 0.1, .steps_per_epoch = 10, .steps = 900};

TEST(Schedule, ConstantIsTheBaseRate) {
  const Schedule schedule("constant", kPlain);
  EXPECT_EQ(schedule.at(0), 0.1);
  EXPECT_EQ(schedule.at(899), 0.1);
}

TEST(Schedule, StepDropsEverySoManyEpochs) {
  const Schedule schedule("step:every=30,factor=0.5", kPlain);
  EXPECT_EQ(schedule.at(299), 0.1);
  EXPECT_EQ(schedule.at(300), 0.05);
  EXPECT_EQ(schedule.at(600), 0.025);
}

TEST(Schedule, StepDropsAtTheEpochsGiven) {
  const Schedule schedule("step:at=30,60,80,factor=0.5", kPlain);
  EXPECT_EQ(schedule.at(299), 0.1);
  EXPECT_EQ(schedule.at(300), 0.05);
  EXPECT_EQ(schedule.at(799), 0.025);
  EXPECT_EQ(schedule.at(800), 0.0125);
}

TEST(Schedule, CosineEndsAtItsFloor) {
  const Schedule schedule("cosine:floor=0.02", kPlain);
  EXPECT_EQ(schedule.at(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(450), 0.06);
  EXPECT_DOUBLE_EQ(schedule.at(900), 0.02);
}

TEST(Schedule, ScaledRateWarmsUpFromTheBaseRateAndArrivesExactly) {
  ScheduleInput input = kPlain;
  input.scale = 8;
  input.warmup_epochs = 5;
  for (const char* spec : {"constant", "step:every=30", "cosine"}) {
    const Schedule schedule(spec, input);
    EXPECT_EQ(schedule.at(0), 0.1) << spec;
    EXPECT_DOUBLE_EQ(schedule.at(25), 0.45) << spec;
    EXPECT_EQ(schedule.at(50), 0.1 * 8) << spec;
  }
}

TEST(Schedule, UnscaledRateWarmsUpInEqualSteps) {
  ScheduleInput input = kPlain;
  input.warmup_epochs = 1;
  const Schedule schedule("constant", input);
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.01);
  EXPECT_EQ(schedule.at(10), 0.1);
}

TEST(Schedule, CosineFallsFromTheEndOfWarmUp) {
  ScheduleInput input = kPlain;
  input.scale = 2;
  input.warmup_epochs = 10;
  const Schedule schedule("cosine", input);
  EXPECT_DOUBLE_EQ(schedule.at(500), 0.1) << "half way from step 100 to 900";
}

TEST(Schedule, WrongWordsAreToldApart) {
  EXPECT_THAT([] { Schedule("cosin", kPlain); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'cosine'?")));
  EXPECT_THAT([] { Schedule("step:evry=2", kPlain); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'every'?")));
  EXPECT_THAT([] { Schedule("step:every=0", kPlain); },
              ThrowsMessage<UsageError>(HasSubstr("at least one step")));
  EXPECT_THAT([] { Schedule("step:at=-1", kPlain); },
              ThrowsMessage<UsageError>(HasSubstr("number of epochs")));
}

}  // namespace
}  // namespace lockstep
