#include "train/waited_for.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(WaitedFor, CountsStepsInWhichAnybodyWaited) {
  WaitedFor waited(3);
  waited.add(1, 0.5);
  waited.add(1, 0.25);
  waited.add(2, 0);
  EXPECT_EQ(waited.by_rank[1].steps, 2u);
  EXPECT_DOUBLE_EQ(waited.by_rank[1].seconds, 0.75);
  EXPECT_EQ(waited.by_rank[2].steps, 0u);
}

TEST(WaitedFor, NamesWhoeverStandsOut) {
  WaitedFor waited(3);
  waited.add(1, 7);
  waited.add(0, 1);
  waited.add(2, 2);
  EXPECT_EQ(waited.straggler(100), 1);             // 70 %, where an even share is 33 %
  EXPECT_EQ(waited.straggler(250), std::nullopt);  // 4 % of the time is not worth a word
  waited.add(2, 2);
  EXPECT_EQ(waited.straggler(100), std::nullopt);  // 58 %
}

TEST(WaitedFor, OneOfTwoAlwaysHasHalfAndThatIsNotEnough) {
  WaitedFor waited(2);
  waited.add(0, 7);
  waited.add(1, 3);
  EXPECT_EQ(waited.straggler(20), std::nullopt);
  waited.add(0, 3);
  EXPECT_EQ(waited.straggler(20), 0);
}

TEST(WaitedFor, NobodyWaitsForOneAlone) {
  EXPECT_EQ(WaitedFor(1).straggler(1), std::nullopt);
  EXPECT_EQ(WaitedFor(2).straggler(0), std::nullopt);
}

TEST(WaitedFor, SurvivesJson) {
  WaitedFor waited(2);
  waited.add(1, 0.5);
  const WaitedFor again = waited_for_from(nlohmann::json::parse(to_json(waited).dump()));
  EXPECT_EQ(again.by_rank[1].steps, 1u);
  EXPECT_DOUBLE_EQ(again.by_rank[1].seconds, 0.5);
}

}  // namespace
}  // namespace lockstep
