// Samples with a class for each of their pixels or tokens.
#include <gtest/gtest.h>

#include <fstream>

#include "train/runs.h"

namespace lockstep {
namespace {

using testing::small_config;
using testing::train_in;

TrainConfig segmentation() {
  TrainConfig config = small_config();
  config.model = "unet:depth=2,width=4";
  config.data = "scenes:of=digits,size=32,digits=3,samples=96,test_samples=9";
  config.batch = 8;
  config.epochs = 4;
  config.optimizer = "adam:lr=0.01";
  return config;
}

TrainConfig text(const testing::Folder& folder) {
  std::ofstream file(folder / "text");
  for (int i = 0; i < 200; ++i) file << "one, two, three, " << (i % 2 ? "four\n" : "five\n");
  TrainConfig config = small_config();
  config.model = "gpt-mini:layers=2,heads=2,width=16,dropout=0";
  config.data = "text:" + folder.text() + "/text" + ",context=16";
  config.batch = 16;
  config.epochs = 6;
  config.optimizer = "adam:lr=0.01";
  return config;
}

void expect_learns(TrainConfig config) {
  for (const int workers : {1, 2}) {
    config.workers = workers;
    config.batch /= workers;
    config.audit = true;
    const TrainResult result = train_in("loopback", config).result;
    EXPECT_LT(result.scores.back().train_loss, 0.7 * result.scores.front().train_loss) << workers;
    EXPECT_LT(result.scores.back().loss, result.scores.front().loss) << workers;
  }
}

TEST(Labels, ForEachPixelAreLearned) { expect_learns(segmentation()); }

TEST(Labels, ForEachTokenAreLearned) {
  const testing::Folder folder;
  expect_learns(text(folder));
}

// 9 images to test with: 5 for one worker and 4 for the other. The network stays what it was drawn
// as, and so answers with many classes; only its statistics depend a little on who has read what.
TEST(Labels, ForEachPixelHaveDiceAndIouWhoeverAnswers) {
  TrainConfig config = segmentation();
  config.optimizer = "sgd:lr=1e-9";
  config.epochs = 1;
  config.global_batch = 8;
  std::vector<Score> last;
  for (const int workers : {1, 2}) {
    config.workers = workers;
    last.push_back(train_in("loopback", config).result.scores.back());
    ASSERT_TRUE(last.back().dice && last.back().iou);
    EXPECT_EQ(last.back().by_class.size(), 11u);
    EXPECT_GT(*last.back().dice, 0);
    EXPECT_LT(*last.back().dice, 1);
    EXPECT_GT(*last.back().iou, 0);
    EXPECT_LT(*last.back().iou, 1);
  }
  EXPECT_NEAR(*last[1].dice / *last[0].dice, 1, 0.3);
  EXPECT_NEAR(*last[1].iou / *last[0].iou, 1, 0.3);
  const auto summary = testing::summary_in("loopback", config);
  EXPECT_EQ(summary["dice"], *last.back().dice);
  EXPECT_EQ(summary["iou"], *last.back().iou);
  const Score read = score_from_json(to_json(last.back()));
  EXPECT_EQ(read.dice, last.back().dice);
  EXPECT_EQ(read.iou, last.back().iou);
}

TEST(Labels, OneASampleOrATokenHaveNoDice) {
  const testing::Folder folder;
  TrainConfig config = text(folder);
  config.epochs = 1;
  EXPECT_FALSE(train_in("loopback", config).result.scores.back().dice);
  EXPECT_TRUE(testing::summary_in("loopback", small_config())["dice"].is_null());
}

// Sets whose labels count otherwise answer them all the same.
TEST(Labels, AreAnsweredByAnExaminerToo) {
  TrainConfig config = segmentation();
  config.strategy = "asp";
  config.workers = 2;
  config.epochs = 1;
  EXPECT_TRUE(train_in("loopback", config).result.scores.back().dice);
}

}  // namespace
}  // namespace lockstep
