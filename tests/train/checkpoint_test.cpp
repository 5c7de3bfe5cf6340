// Checkpoints are whole or refused.
#include "train/checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(run_); }
  void TearDown() override { fs::remove_all(run_); }

  // Two ranks, each with its own numbers.
  void save(int step) {
    run_loopback(2, [&](Rank& rank) {
      const std::vector<float> numbers(100, static_cast<float>(rank.rank() + step));
      const std::string where = rank.rank() == 0 ? folder(step) : "elsewhere";
      save_checkpoint(rank.peers, where, {{"step", step}}, {{"weights", {numbers.data(), 400}}});
    });
  }
  std::string folder(int step) const {
    return (run_ / "checkpoints" / ("step-" + std::to_string(step))).string();
  }

  const fs::path run_ = fs::path(::testing::TempDir()) /
                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
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
}

}  // namespace
}  // namespace lockstep
