// Every example does what its opening comment says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/program.h"

namespace lockstep {
namespace {

using ::testing::ContainsRegex;

std::string output_of(const std::string& example) {
  Program program({std::string(EXAMPLES_FOLDER "/") + example});
  EXPECT_EQ(program.wait(100), 0) << program.err();
  return program.out();
}

TEST(Examples, TwoRanksLearn) {
  EXPECT_THAT(output_of("two_ranks"),
              ContainsRegex("\\[0\\] epoch 3: loss 0\\.[0-9]+, [89][0-9]\\.. % of 500"));
}

TEST(Examples, AnExistingLoopLearns) {
  EXPECT_THAT(output_of("existing_loop"), ContainsRegex("\\[0\\] epoch 3: loss 0\\.0[0-9]+\n"));
}

TEST(Examples, AStrategyOfOnesOwnLearnsAndPassesTheAudit) {
  EXPECT_THAT(output_of("own_strategy"),
              ContainsRegex("\\[0\\] after 120 steps: [89][0-9]\\.. % right"));
}

TEST(Examples, TheSameStrategyLearnsInSimulation) {
  EXPECT_THAT(output_of("simulated"), ContainsRegex("pairwise +[678][0-9]\\.. % right after"));
}

TEST(Examples, AnAsynchronousStrategyOfOnesOwnLearnsAndPassesTheAudit) {
  EXPECT_THAT(output_of("asynchronous"),
              ContainsRegex("\\[0\\] each of 3 workers took 200 steps: [89][0-9]\\.. % right"));
}

}  // namespace
}  // namespace lockstep
