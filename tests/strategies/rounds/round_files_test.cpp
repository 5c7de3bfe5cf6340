#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "folder.h"
#include "strategies/rounds/round_mail.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;
using Floats = std::vector<float>;

class WeightFilesTest : public ::testing::Test {
 protected:
  static Values values(Floats& v) { return {v.data(), v.size(), Type::fp32}; }
  std::size_t files() const {
    const fs::directory_iterator all(folder_ + "/exchange");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  const testing::Folder temporary_;
  const std::string folder_ = temporary_ / "run";
};

TEST_F(WeightFilesTest, WhatIsReadIsWhatWasWritten) {
  const RoundFiles files(folder_);
  Floats weights{1, 2.5f, -3}, statistics{7};
  files.write(RoundFiles::of_round(4), {values(weights), values(statistics)});
  files.write(RoundFiles::of_result(4, 1, 2), {values(weights)});
  Floats w(3), s(1);
  EXPECT_TRUE(files.read(RoundFiles::of_round(4), {values(w), values(s)}));
  EXPECT_EQ(w, weights);
  EXPECT_EQ(s, statistics);
  EXPECT_TRUE(files.read(RoundFiles::of_result(4, 1, 2), {values(w)}));
  EXPECT_FALSE(files.read(RoundFiles::of_result(4, 1, 0), {values(w)})) << "another's";
  EXPECT_FALSE(files.read(RoundFiles::of_round(5), {values(w)})) << "not there yet";
}

TEST_F(WeightFilesTest, DamageIsNamed) {
  const RoundFiles files(folder_);
  Floats weights(1000, 0.5f), longer(1001);
  files.write(RoundFiles::of_round(0), {values(weights)});
  EXPECT_THAT([&] { files.read(RoundFiles::of_round(0), {values(longer)}); },
              ThrowsMessage<UsageError>(HasSubstr("is cut, or not of this network")));
  const std::string path = folder_ + "/exchange/00000000.model";
  ASSERT_TRUE(fs::exists(path));
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(2000).put('x');
  EXPECT_THAT([&] { files.read(RoundFiles::of_round(0), {values(weights)}); },
              ThrowsMessage<UsageError>(HasSubstr("00000000.model is damaged")));
  fs::resize_file(path, 100);
  EXPECT_THAT([&] { files.read(RoundFiles::of_round(0), {values(weights)}); },
              ThrowsMessage<UsageError>(HasSubstr("is cut")));
}

TEST_F(WeightFilesTest, NothingIsLeft) {
  const RoundFiles files(folder_);
  Floats weights(10);
  for (std::uint64_t round = 0; round < 3; ++round) {
    files.write(RoundFiles::of_round(round), {values(weights)});
    files.write(RoundFiles::of_result(round, 0, 1), {values(weights)});
  }
  files.remove(RoundFiles::of_result(2, 0, 1));
  EXPECT_EQ(this->files(), 5u);
  files.remove_until(1);
  EXPECT_EQ(this->files(), 1u);
  EXPECT_TRUE(files.read(RoundFiles::of_round(2), {values(weights)}));
  files.remove_all();
  EXPECT_FALSE(fs::exists(folder_ + "/exchange"));
  EXPECT_TRUE(fs::exists(folder_));
}

TEST_F(WeightFilesTest, WhatALateWorkerStillWritesStays) {
  const RoundFiles files(folder_);
  const std::string late = folder_ + "/exchange/00000001-task0-rank1.model.partial";
  std::ofstream(late) << "half of it";
  files.remove_until(1);
  EXPECT_TRUE(fs::exists(late)) << "it is renamed when it is whole";
  files.remove_all();
  EXPECT_FALSE(fs::exists(late));
}

}  // namespace
}  // namespace lockstep
