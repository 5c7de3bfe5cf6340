#include "measure/step_clock.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Stragglers, CountsStepsInWhichAnybodyWaited) {
  Stragglers waited(3);
  waited.add(1, 0.5);
  waited.add(1, 0.25);
  waited.add(2, 0);
  EXPECT_EQ(waited.by_rank[1].steps, 2u);
  EXPECT_DOUBLE_EQ(waited.by_rank[1].seconds, 0.75);
  EXPECT_EQ(waited.by_rank[2].steps, 0u);
}

TEST(Stragglers, NamesWhoeverStandsOut) {
  Stragglers waited(3);
  waited.add(1, 7);
  waited.add(0, 1);
  waited.add(2, 2);
  EXPECT_EQ(waited.straggler(100), 1);             // 70 %, where an even share is 33 %
  EXPECT_EQ(waited.straggler(250), std::nullopt);  // 4 % of the time is not worth a word
  waited.add(2, 2);
  EXPECT_EQ(waited.straggler(100), std::nullopt);  // 58 %
}

TEST(Stragglers, OneOfTwoAlwaysHasHalfAndThatIsNotEnough) {
  Stragglers waited(2);
  waited.add(0, 7);
  waited.add(1, 3);
  EXPECT_EQ(waited.straggler(20), std::nullopt);
  waited.add(0, 3);
  EXPECT_EQ(waited.straggler(20), 0);
}

TEST(Stragglers, NobodyWaitsForOneAlone) {
  EXPECT_EQ(Stragglers(1).straggler(1), std::nullopt);
  EXPECT_EQ(Stragglers(2).straggler(0), std::nullopt);
}

TEST(Stragglers, SurvivesJson) {
  Stragglers waited(2);
  waited.add(1, 0.5);
  const Stragglers again = stragglers_from(nlohmann::json::parse(to_json(waited).dump()));
  EXPECT_EQ(again.by_rank[1].steps, 1u);
  EXPECT_DOUBLE_EQ(again.by_rank[1].seconds, 0.5);
}

}  // namespace
}  // namespace lockstep
