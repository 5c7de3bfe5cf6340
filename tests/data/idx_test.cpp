// IDX files and MNIST: what is read, and what is refused.
#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"
#include "data/files.h"
#include "data/published.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::idx;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using testing::write_file;
using testing::write_idx_set;

RawArray parse(const std::string& file) {
  return parse_idx(std::as_bytes(std::span(file)), "file");
}

TEST(Idx, ReadsHeaderAndBody) {
  const std::string file = idx(0x803, {2, 1, 3}, "abcdef");
  const RawArray array = parse(file);
  EXPECT_THAT(array.dims, ElementsAre(2, 1, 3));
  EXPECT_EQ(array.element, Element::u8);
  EXPECT_EQ(static_cast<char>(array.body[5]), 'f');
}

TEST(Idx, ReadsNumbersBigEndFirst) {
  const std::string file = idx(0xb01, {2}, std::string("\x01\x02\xff\xfe", 4));
  const RawArray array = parse(file);
  float numbers[2];
  to_floats(array.element, array.swapped, array.body.data(), 2, numbers);
  EXPECT_THAT(numbers, ElementsAre(258, -2));
}

struct Lie {
  std::string name, file, said;
  friend void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }
};
class LyingIdx : public ::testing::TestWithParam<Lie> {};

TEST_P(LyingIdx, IsRefused) {
  EXPECT_THAT([] { parse(GetParam().file); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("file"), HasSubstr(GetParam().said))));
}

INSTANTIATE_TEST_SUITE_P(
    Files, LyingIdx,
    ::testing::Values(Lie{"empty", "", "too short"},
                      Lie{"magic",
                          "\x7f"
                          "ELF, and more",
                          "0x7f454c46"},
                      Lie{"type", idx(0x703, {1, 1, 1}, "a"), "not an IDX file"},
                      Lie{"no_dims", idx(0x800, {}, "a"), "not an IDX file"},
                      Lie{"many_dims", idx(0x8ff, {1, 1}, "a"), "not an IDX file"},
                      Lie{"header", idx(0x803, {2, 2}, ""), "ends inside its IDX header"},
                      Lie{"short", idx(0x803, {2, 2, 2}, "1234567"), "but 7 bytes follow"},
                      Lie{"long", idx(0x803, {2, 2, 2}, "123456789"), "but 9 bytes follow"},
                      Lie{"zero", idx(0x803, {0, 28, 28}, ""), "holds no samples"},
                      // The product is 2^64, which is 0 to a careless reader.
                      Lie{"overflow", idx(0x804, {1u << 31, 1u << 31, 2, 2}, ""), "0 bytes follow"},
                      Lie{"huge", idx(0x803, {~0u, ~0u, ~0u}, "a"), "1 bytes follow"}),
    [](const auto& info) { return info.param.name; });

TEST(Idx, MutatedBytesAreReadOrRefusedAndNeverCrash) {
  Rng rng(1, 0, 1);
  const std::string good = idx(0x803, {3, 2, 2}, "abcdefghijkl");
  for (int round = 0; round < 20000; ++round) {
    std::string file = good.substr(0, rng.below(4) == 0 ? rng.below(good.size() + 1) : good.size());
    for (std::uint64_t n = rng.below(4); n > 0 && !file.empty(); --n)
      file[rng.below(file.size())] = static_cast<char>(rng());
    try {
      const RawArray array = parse(file);
      std::vector<float> numbers(array.body.size() / size_of(array.element));
      to_floats(array.element, array.swapped, array.body.data(), numbers.size(), numbers.data());
      labels_in(array, "file");
    } catch (const UsageError&) {
    }
  }
}

TEST(IdxFolder, IsKnownByItsFilesAndNormalised) {
  const Folder folder;
  write_idx_set(folder.path());
  const Data data = open_data(folder.text(), {});
  EXPECT_EQ(data.name, "idx:" + folder.text());
  EXPECT_EQ(data.train->size(), 6u);
  EXPECT_EQ(data.test->size(), 3u);
  EXPECT_EQ(data.train->classes(), 3);
  EXPECT_THAT(data.train->shape(), ElementsAre(1, 2, 3));
  EXPECT_THAT(data.train->labels(), ElementsAre(0, 1, 2, 0, 1, 2));
  float x[12];
  data.train->read(std::vector<std::uint32_t>{4, 0}, 0, x);
  EXPECT_EQ(x[0], (24 / 255.f - .1307f) / .3081f);
  EXPECT_EQ(x[11], (5 / 255.f - .1307f) / .3081f);
}

TEST(IdxFolder, TakesMeanDeviationAndLimits) {
  const Folder folder;
  write_idx_set(folder.path());
  const Data data = open_data(folder.text() + ":mean=0.5,deviation=0.25", {2, 1, {}, {}});
  EXPECT_EQ(data.train->size(), 2u);
  EXPECT_EQ(data.test->size(), 1u);
  float x[6];
  data.train->read(std::vector<std::uint32_t>{1}, 0, x);
  EXPECT_EQ(x[0], (6 / 255.f - .5f) / .25f);
}

TEST(IdxFolder, TakesNamesWithDots) {
  const Folder folder;
  write_idx_set(folder.path());
  rename(folder / "train-images-idx3-ubyte", folder / "train-images.idx3-ubyte");
  EXPECT_EQ(open_data("idx:" + folder.text(), {}).train->size(), 6u);
}

TEST(IdxFolder, RefusesLabelsThatDoNotMatch) {
  const Folder folder;
  write_idx_set(folder.path());
  write_file(folder / "train-labels-idx1-ubyte", idx(0x801, {2}, "ab"));
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("6 samples"), HasSubstr("2 labels"))));
}

TEST(IdxFolder, RefusesAMissingFile) {
  const Folder folder;
  write_idx_set(folder.path());
  remove(folder / "t10k-labels-idx1-ubyte");
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("no t10k-labels-idx1-ubyte")));
}

TEST(Mnist, IsNotWhatOnlyBearsItsNames) {
  const Folder folder;
  write_idx_set(folder.path() / "mnist");
  EXPECT_THAT(
      [&] {
        open_data("mnist", {0, 0, folder.path(), {}});
      },
      ThrowsMessage<UsageError>(
          AllOf(HasSubstr("is not MNIST's: its MD5 is"), HasSubstr(folder.text() + "/mnist"))));
}

TEST(Mnist, IsFetchedIntoTheCacheWhereItIsMissing) {
  const Folder folder;
  std::filesystem::path asked;
  const Data data = open_data(
      "mnist", {10, 5, folder.path(), [&](std::string_view, const auto& to) { asked = to; }});
  EXPECT_EQ(asked, folder.path() / "mnist");
}

TEST(Mnist, ThatCanNotBeHadIsReplacedByDigitsAndSaysSo) {
  const Folder folder;
  const OpenRequest request{10, 5, folder.path(), [](std::string_view, const auto&) {
                              throw InternalError("no network");
                            }};
  const Data data = open_data("mnist", request);
  EXPECT_EQ(data.name, "digits");
  EXPECT_EQ(data.spec, "digits");
  EXPECT_THAT(data.notices, ElementsAre(AllOf(HasSubstr("no network"), HasSubstr("generated"))));
  EXPECT_THAT(open_data(data.spec, request).notices, IsEmpty());
}

TEST(Mnist, AskedForInAFolderIsNeverReplaced) {
  const Folder folder;
  EXPECT_THAT([&] { open_data("mnist:" + folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("MNIST is not in " + folder.text())));
}

TEST(Md5, IsTheUsualOne) {
  const Folder folder;
  write_file(folder / "f", "abc");
  EXPECT_EQ(md5_of(folder / "f"), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(Open, NamesTheNearestDataSet) {
  EXPECT_THAT([] { open_data("mnits", {}); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'mnist'")));
  EXPECT_THAT([] { open_data("digits:sample=3", {}); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'samples'")));
  EXPECT_THAT([] { open_data("./nowhere", {}); },
              ThrowsMessage<UsageError>(HasSubstr("no such folder")));
}

TEST(Open, SaysWhatItLookedForInAFolder) {
  const Folder folder;
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("train-images-idx3-ubyte")));
}

}  // namespace
}  // namespace lockstep
