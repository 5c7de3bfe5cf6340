// run_ranks(), watched from outside: a program that starts itself, or is started by a launcher.
#include "lockstep/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/program.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RunRanks, StartsTheProgramWithItsArgumentsAsManyTimesAsAsked) {
  Program program({RANKS_FOR_TESTS, "something"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), AllOf(HasSubstr("[0] rank 0 of 3 was told something\n"),
                                   HasSubstr("[1] rank 1 of 3 was told something\n"),
                                   HasSubstr("[2] rank 2 of 3 was told something\n")));
}

TEST(RunRanks, WrongUsageIsOneSentenceAndStatusTwo) {
  Program program({RANKS_FOR_TESTS, "misuse"});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("[1] ranks_for_tests: this rank was misused"), HasSubstr("rank 1 (")))
      << "by the rank itself, and by who watches";
}

TEST(RunRanks, ARankThatThrowsFailsTheJob) {
  Program program({RANKS_FOR_TESTS, "fail", "2"});
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.err(), HasSubstr("[2] ranks_for_tests: this rank failed"));
}

TEST(RunRanks, AnotherLauncherNeedsAKey) {
  Program program({RANKS_FOR_TESTS, "join"}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), HasSubstr("LOCKSTEP_KEY_FILE"));
}

}  // namespace
}  // namespace lockstep
