#include "train/mask_scores.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using Pixels = std::vector<std::int64_t>;
using Counts = std::vector<double>;

TEST(Dice, IsOneWhereAnswerAndMaskAgree) {
  const Pixels mask{0, 1, 2, 0};
  EXPECT_EQ(dice_of(mask, mask, 4), 1);
  EXPECT_EQ(dice_of(Pixels{0, 0}, Pixels{0, 0}, 4), 1) << "nothing to find, and nothing found";
}

// Class 1: 1 in common, 2 and 1 of it. Class 2: none in common. Background counts for nothing.
TEST(Dice, IsTheMeanOverTheClassesThatEitherHas) {
  EXPECT_DOUBLE_EQ(dice_of(Pixels{1, 0, 0, 0}, Pixels{1, 1, 2, 0}, 4), (2.0 / 3 + 0) / 2);
  EXPECT_DOUBLE_EQ(dice_of(Pixels{3, 0, 0, 0}, Pixels{0, 0, 0, 0}, 4), 0);
}

TEST(Iou, IsTheMeanOverTheClassesThatThereAre) {
  // Class 0: 6 right, 8 there, 7 answers: 6 of 9. Class 1: 1, 2, 3: 1 of 4. Class 2: neither.
  EXPECT_DOUBLE_EQ(mean_iou(Counts{6, 1, 0}, Counts{8, 2, 0}, Counts{7, 3, 0}),
                   (6.0 / 9 + 1.0 / 4) / 2);
}

}  // namespace
}  // namespace lockstep
