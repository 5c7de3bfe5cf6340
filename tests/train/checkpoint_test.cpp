// Checkpoints are whole or refused.
#include "train/checkpoint.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "core/error.h"
#include "folder.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Checkpoints : public ::testing::Test {
 protected:
  // Two ranks, each with its own numbers.
  void save(int step, std::uint64_t keep = 0) {
    run_loopback(2, [&](Rank& rank) {
      const std::vector<float> numbers(100, static_cast<float>(rank.rank() + step));
      const std::string where = rank.rank() == 0 ? folder(step) : "elsewhere";
      const SavedCheckpoint saved = save_checkpoint(rank.peers, where, {{"step", step}},
                                                    {{"weights", {numbers.data(), 400}}}, keep);
      EXPECT_EQ(saved.failure, "");
      if (rank.rank() == 0) set_aside_ = saved.set_aside;
    });
  }
  std::string folder(int step) const {
    return (run_ / "checkpoints" / ("step-" + std::to_string(step))).string();
  }

  std::vector<std::string> set_aside_;  // by the last save()
  const testing::Folder temporary_;
  const fs::path run_ = temporary_ / "run";
};

TEST_F(Checkpoints, ComeBackByRank) {
  save(3);
  const Checkpoint checkpoint(folder(3));
  std::vector<float> numbers(100);
  checkpoint.read(1, "weights", {reinterpret_cast<std::byte*>(numbers.data()), 400});
  EXPECT_EQ(numbers, std::vector<float>(100, 4));
  EXPECT_EQ(checkpoint.about().at("step"), 3);
  EXPECT_TRUE(checkpoint.has(0, "weights"));
  EXPECT_FALSE(checkpoint.has(2, "weights"));
}

TEST_F(Checkpoints, TheNewestOfARunIsTaken) {
  save(9);
  save(10);
  fs::create_directories(folder(11) + ".partial");  // a crash left it
  EXPECT_EQ(Checkpoint(run_.string()).about().at("step"), 10);
}

TEST_F(Checkpoints, OneOfTheSameNameIsReplaced) {
  save(3);
  save(3);
  EXPECT_FALSE(fs::exists(folder(3) + ".partial"));
  EXPECT_EQ(Checkpoint(folder(3)).about().at("step"), 3);
}

TEST_F(Checkpoints, HalfOfOneIsNeverTakenHoweverWholeItLooks) {
  save(9);
  fs::copy(folder(9), folder(11) + ".partial");
  fs::copy(folder(9), folder(12) + ".old");
  fs::copy(folder(9), (run_ / "checkpoints" / "step-13x").string());
  EXPECT_EQ(Checkpoint(run_.string()).folder(), folder(9));
  EXPECT_EQ(newest_checkpoint(run_.string()), folder(9));
}

TEST_F(Checkpoints, TheNewestThatIsWholeIsTaken) {
  for (const int step : {8, 9, 10, 11}) save(step);
  fs::resize_file(folder(11) + "/rank-1.weights", 399);
  std::ofstream(folder(10) + "/manifest.json") << "{";
  const Checkpoint checkpoint(run_.string());
  EXPECT_EQ(checkpoint.folder(), folder(9));
  ASSERT_EQ(checkpoint.passed_over().size(), 2u);
  EXPECT_THAT(checkpoint.passed_over()[0], HasSubstr("step-11/rank-1.weights is cut"));
  EXPECT_THAT(checkpoint.passed_over()[1], HasSubstr("step-10/manifest.json is damaged"));
  for (const int step : {8, 9}) fs::remove(folder(step) + "/rank-0.weights");
  EXPECT_THAT([&] { Checkpoint(run_.string()); },
              ThrowsMessage<UsageError>(HasSubstr("is whole; of the newest, ")));
}

TEST_F(Checkpoints, TheNewestSoManyAreKept) {
  fs::create_directories(folder(1) + ".partial");
  for (const int step : {2, 3, 9, 10}) save(step, 2);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(run_ / "checkpoints"))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"step-9", "step-10"}));
}

// Else the next to resume the run would take the old course for the newest.
TEST_F(Checkpoints, ThoseOfACourseThatWasLeftAreSetAside) {
  for (const int step : {4, 9, 10}) save(step, 3);
  EXPECT_TRUE(set_aside_.empty());
  save(5, 3);  // by a run that went back to step 4
  EXPECT_EQ(set_aside_, (std::vector{folder(9) + ".left", folder(10) + ".left"}));
  EXPECT_EQ(Checkpoint(run_.string()).folder(), folder(5));
  EXPECT_EQ(newest_checkpoint(run_.string()), folder(5));
  EXPECT_EQ(Checkpoint(folder(9) + ".left").step(), 9u) << "nothing is lost";
  save(9, 3);
  save(4, 3);  // back again
  EXPECT_EQ(set_aside_, (std::vector{folder(5) + ".left", folder(9) + ".left-2"}));
  EXPECT_EQ(Checkpoint(run_.string()).folder(), folder(4));
}

TEST_F(Checkpoints, OneThatIsReplacedIsThereAtEveryMoment) {
  save(3);
  std::atomic<bool> done = false;
  std::size_t looked = 0, missed = 0;
  std::thread reader([&] {
    for (; !done; ++looked) missed += fs::exists(folder(3) + "/manifest.json") ? 0 : 1;
  });
  for (int i = 0; i < 100; ++i) save(3);
  done = true;
  reader.join();
  EXPECT_EQ(missed, 0u) << "of " << looked;
}

TEST_F(Checkpoints, WhatCantBeWrittenIsToldToAllAndLeavesTheOldOnes) {
  save(3);
  std::ofstream(run_ / "file") << "not a folder";
  run_loopback(2, [&](Rank& rank) {
    const std::string where = (run_ / "file" / "step-4").string();
    EXPECT_THAT(save_checkpoint(rank.peers, where, {{"step", 4}}, {}).failure,
                HasSubstr("Not a directory"));
    // Of rank 1 alone: a name that no file system takes.
    const std::string name = rank.rank() == 1 ? std::string(300, 'x') : "x";
    EXPECT_THAT(save_checkpoint(rank.peers, folder(4), {{"step", 4}}, {{name, {"", 0}}}).failure,
                HasSubstr("File name too long"));
  });
  EXPECT_FALSE(fs::exists(folder(4)) || fs::exists(folder(4) + ".partial"));
  EXPECT_EQ(Checkpoint(run_.string()).folder(), folder(3));
}

TEST_F(Checkpoints, WhatIsCutAlteredOrMissingIsNamed) {
  save(1);
  const std::string file = folder(1) + "/rank-0.weights";
  const auto reading = [&] { Checkpoint(folder(1)).read(0, "weights"); };
  fs::resize_file(file, 399);
  EXPECT_THAT(reading, ThrowsMessage<UsageError>(HasSubstr("rank-0.weights is cut")));
  fs::resize_file(file, 400);
  EXPECT_THAT(reading, ThrowsMessage<UsageError>(HasSubstr("rank-0.weights is damaged")));
  fs::remove(file);
  EXPECT_THAT(reading, ThrowsMessage<UsageError>(HasSubstr("can't open")));
}

TEST_F(Checkpoints, AnotherModelsIsRefused) {
  save(1);
  std::byte room[8];
  EXPECT_THAT(
      [&] {
        Checkpoint(folder(1)).read(0, "weights", {room, 8});
      },
      ThrowsMessage<UsageError>(HasSubstr("another model")));
}

TEST_F(Checkpoints, ForeignFoldersAreRefused) {
  EXPECT_THAT([&] { Checkpoint(run_.string()); },
              ThrowsMessage<UsageError>(HasSubstr("no checkpoint in")));
  fs::create_directories(folder(1));
  const auto manifest = [&](const std::string& text) {
    std::ofstream(folder(1) + "/manifest.json") << text;
    return [&] { Checkpoint(folder(1)); };
  };
  EXPECT_THAT(manifest("{"), ThrowsMessage<UsageError>(HasSubstr("damaged")));
  EXPECT_THAT(manifest(R"({"kind":"x"})"),
              ThrowsMessage<UsageError>(HasSubstr("not a checkpoint")));
  EXPECT_THAT(manifest(R"({"kind":"lockstep checkpoint","schema_version":99})"),
              ThrowsMessage<UsageError>(HasSubstr("format 99")));
  for (const char* hostile :
       {R"("about":{"step":"1"},"files":{})", R"("about":{"step":-1},"files":{})",
        R"("about":{},"files":{})", R"("about":{"step":1},"files":[1])",
        R"("about":{"step":1},"files":{"x":{"bytes":"1","sha256":""}})",
        R"("about":{"step":1},"files":{"../x":{"bytes":1,"sha256":""}})"})
    EXPECT_THAT(manifest(std::string(R"({"kind":"lockstep checkpoint","schema_version":1,)") +
                         hostile + "}"),
                ThrowsMessage<UsageError>(HasSubstr("damaged")))
        << hostile;
}

}  // namespace
}  // namespace lockstep
