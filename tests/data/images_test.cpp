// JPEGs and folders of them: decoding, cropping, and pictures that are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rng.h"
#include "data/files.h"
#include "data/open.h"
#include "data/picture.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using testing::write_file;

// Red grows to the right, green downwards.
Picture ramp(int width, int height) {
  Picture picture{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int value : {x * 255 / width, y * 255 / height, 128})
        picture.rgb.push_back(static_cast<std::uint8_t>(value));
  return picture;
}

std::string jpeg_of(const Picture& picture, int quality = 95) {
  const auto bytes = encode_jpeg(picture, quality);
  return {bytes.begin(), bytes.end()};
}

Picture decode(const std::string& bytes, int shrink = 1) {
  return JpegReader(std::as_bytes(std::span(bytes))).decode(shrink);
}

TEST(Jpeg, DecodesWhatWasEncoded) {
  const Picture picture = ramp(50, 40), again = decode(jpeg_of(picture));
  ASSERT_EQ(again.width, 50);
  ASSERT_EQ(again.height, 40);
  double error = 0;
  for (std::size_t i = 0; i < picture.rgb.size(); ++i)
    error += std::abs(picture.rgb[i] - again.rgb[i]);
  EXPECT_LT(error / static_cast<double>(picture.rgb.size()), 4);
}

TEST(Jpeg, ShrinksWhileDecoding) {
  const Picture small = decode(jpeg_of(ramp(100, 60)), 4);
  EXPECT_EQ(small.width, 25);
  EXPECT_EQ(small.height, 15);
  EXPECT_NEAR(small.rgb[(7 * 25 + 12) * 3], 128, 12);
}

TEST(Jpeg, CutOffAnywhereIsDamaged) {
  const std::string whole = jpeg_of(draw_picture(1, 0, 0, 64, 64));
  for (std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{20}, whole.size() / 4,
                             whole.size() / 2, whole.size() - 40})
    EXPECT_THROW(decode(whole.substr(0, length)), DamagedJpeg) << length;
}

TEST(Jpeg, SizesOfAnotherWorldAreDamaged) {
  std::string bytes = jpeg_of(ramp(64, 64));
  const std::size_t frame = bytes.find("\xff\xc0");
  for (std::size_t i = 0; i < 4; ++i) bytes[frame + 5 + i] = static_cast<char>(0xfe);
  EXPECT_THAT([&] { decode(bytes); }, ThrowsMessage<DamagedJpeg>(HasSubstr("too many")));
}

TEST(Jpeg, MutatedBytesAreReadOrDamagedAndNeverCrash) {
  Rng rng(1, 0, 1);
  const std::string good = jpeg_of(draw_picture(1, 0, 0, 48, 48), 70);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good.substr(0, rng.below(4) == 0 ? rng.below(good.size()) : good.size());
    for (std::uint64_t n = 1 + rng.below(4); n > 0 && !bytes.empty(); --n)
      bytes[rng.below(std::min<std::size_t>(bytes.size(), rng.below(2) ? 700 : bytes.size()))] =
          static_cast<char>(rng());
    try {
      const Picture picture = decode(bytes, 1 << rng.below(4));
      EXPECT_EQ(picture.rgb.size(), std::size_t(picture.width) * picture.height * 3);
    } catch (const DamagedJpeg&) {
    }
  }
}

TEST(Crop, RandomOnesLieInsideAndVary) {
  Rng rng(1, 0, 1);
  double least = 1, most = 0;
  for (int i = 0; i < 1000; ++i) {
    const Crop crop = random_crop(300, 200, rng);
    EXPECT_GE(crop.left, 0);
    EXPECT_GE(crop.top, 0);
    EXPECT_LE(crop.left + crop.width, 300 + 1e-9);
    EXPECT_LE(crop.top + crop.height, 200 + 1e-9);
    const double area = crop.width * crop.height / 60000;
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, .15);
  EXPECT_GT(most, .85);
}

TEST(Crop, ShrinksOnlyAsFarAsTheCropStaysLargeEnough) {
  EXPECT_EQ(shrink_for({0, 0, 224, 300}, 224), 1);
  EXPECT_EQ(shrink_for({0, 0, 448, 600}, 224), 2);
  EXPECT_EQ(shrink_for({0, 0, 4000, 4000}, 32), 8);
  EXPECT_EQ(shrink_for({0, 0, 10, 10}, 224), 1);
}

TEST(Crop, ResamplesTheRightPart) {
  const Picture picture = ramp(256, 256);
  const auto sampled = [&](const Crop& crop, int shrink) {
    std::vector<float> x(3 * 16 * 16);
    resample(shrink == 1 ? picture : decode(jpeg_of(picture), shrink), shrink, crop, 16, {},
             x.data());
    return x;
  };
  for (int shrink : {1, 2, 4}) {
    const auto x = sampled({64, 128, 64, 64, false}, shrink);
    EXPECT_NEAR(x[0], 66, 6) << shrink;               // left, red
    EXPECT_NEAR(x[15], 126, 6) << shrink;             // right, red
    EXPECT_NEAR(x[256], 130, 6) << shrink;            // above, green
    EXPECT_NEAR(x[256 + 15 * 16], 190, 6) << shrink;  // below, green
  }
  EXPECT_NEAR(sampled({64, 128, 64, 64, true}, 1)[0], 126, 6);
}

// `counts` pictures of each class, in DIR/PART/CLASS/N.jpg.
void write_pictures(const std::filesystem::path& folder, const std::vector<int>& counts) {
  for (int label = 0; label < std::ssize(counts); ++label)
    for (int i = 0; i < counts[label]; ++i)
      write_file(folder / ("class" + std::to_string(label)) / (std::to_string(i) + ".jpg"),
                 jpeg_of(draw_picture(1, label, i, 40, 32)));
}

std::vector<float> read(const Dataset& set, std::uint32_t index, std::uint64_t variation = 0) {
  std::vector<float> x(set.values());
  set.read(std::array{index}, variation, x.data());
  return x;
}

TEST(Images, ReadTheImageNetLayout) {
  const Folder folder;
  write_pictures(folder / "train", {3, 1});
  write_pictures(folder / "val", {1, 1});
  const Data data = open_data(folder.text() + ":size=16", {});
  EXPECT_EQ(data.name, "images:" + folder.text());
  EXPECT_THAT(data.train->shape(), ElementsAre(3, 16, 16));
  EXPECT_THAT(data.train->labels(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(data.test->labels(), ElementsAre(0, 1));
  EXPECT_TRUE(data.train->slow());
  EXPECT_THAT(data.notices, IsEmpty());
  EXPECT_NE(read(*data.train, 0), read(*data.train, 1));
}

TEST(Images, HoldOutAPartOfEachClassWhereThereIsNoVal) {
  const Folder folder;
  write_pictures(folder.path(), {10, 20});
  write_file(folder / "class0/notes.txt", "x");
  const Data data = open_data("images:" + folder.text() + ",size=8", {});
  EXPECT_EQ(data.train->size(), 27u);
  EXPECT_THAT(data.test->labels(), ElementsAre(0, 1, 1));
  EXPECT_THAT(data.notices, ElementsAre(HasSubstr("1 entries that are not files named .jpg")));
}

TEST(Images, AugmentByVariationInTrainingOnly) {
  const Folder folder;
  write_pictures(folder / "train", {2, 2});
  write_pictures(folder / "val", {1, 1});
  const Data data = open_data(folder.text() + ":size=16", {});
  EXPECT_EQ(read(*data.train, 1, 7), read(*data.train, 1, 7));
  EXPECT_NE(read(*data.train, 1, 7), read(*data.train, 1, 8));
  EXPECT_EQ(read(*data.test, 1, 7), read(*data.test, 1, 8));
  const Data plain = open_data(folder.text() + ":size=16,augment=off", {});
  EXPECT_EQ(read(*plain.train, 1, 7), read(*plain.train, 1, 8));
}

TEST(Images, ADamagedPictureIsNamedAndReplacedByTheNextOfItsClass) {
  const Folder folder;
  write_pictures(folder / "train", {4, 4});
  write_pictures(folder / "val", {1, 1});
  const std::string whole = testing::read_file(folder / "train/class1/1.jpg");
  write_file(folder / "train/class1/1.jpg", whole.substr(0, whole.size() / 2));
  write_file(folder / "train/class1/2.jpg", "this is no picture");
  const Data data = open_data(folder.text() + ":size=16,augment=off", {});
  ASSERT_THAT(data.train->labels(), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(data.train->damaged(), IsEmpty());
  EXPECT_EQ(read(*data.train, 3), read(*data.train, 7));  // 1 and 2 are damaged, 3 is good
  EXPECT_EQ(read(*data.train, 3), read(*data.train, 5));
  EXPECT_THAT(data.train->damaged(),
              ElementsAre(AllOf(HasSubstr("class1/1.jpg: "), HasSubstr("remature end")),
                          AllOf(HasSubstr("class1/2.jpg: "), HasSubstr("Not a JPEG"))));
}

TEST(Images, APictureThatIsGoneCountsAsDamaged) {
  const Folder folder;
  write_pictures(folder / "train", {2, 2});
  write_pictures(folder / "val", {1, 1});
  const Data data = open_data(folder.text() + ":size=16,augment=off", {});
  remove(folder / "train/class0/0.jpg");
  EXPECT_EQ(read(*data.train, 0), read(*data.train, 2));
  EXPECT_THAT(data.train->damaged(), ElementsAre(HasSubstr("can't be opened")));
}

TEST(Images, AClassWithoutAnyGoodPictureIsAnError) {
  const Folder folder;
  write_pictures(folder / "train", {2, 1});
  write_pictures(folder / "val", {1, 1});
  write_file(folder / "train/class1/0.jpg", "");
  const Data data = open_data(folder.text() + ":size=16", {});
  EXPECT_THAT([&] { read(*data.train, 1); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("no picture in"), HasSubstr("class1 can be decoded"))));
}

TEST(Images, RefuseFoldersThatDoNotFit) {
  const Folder folder;
  write_pictures(folder / "train", {2, 2});
  write_pictures(folder / "val", {1, 1, 1});
  EXPECT_THAT([&] { open_data(folder.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("val/class2 is a class that")));
  const Folder empty;
  EXPECT_THAT([&] { open_data("images:" + empty.text(), {}); },
              ThrowsMessage<UsageError>(HasSubstr("holds no pictures")));
  EXPECT_THAT([&] { open_data("images:/nowhere", {}); },
              ThrowsMessage<UsageError>(HasSubstr("/nowhere is not a folder")));
}

TEST(DrawnPictures, AreTheSameForTheSameSeedAndDifferOtherwise) {
  const auto pixels = [](int seed, int label, int index) {
    return draw_picture(seed, label, index, 32, 24).rgb;
  };
  EXPECT_EQ(pixels(1, 2, 3), pixels(1, 2, 3));
  EXPECT_NE(pixels(1, 2, 3), pixels(2, 2, 3));
  EXPECT_NE(pixels(1, 2, 3), pixels(1, 3, 3));
  EXPECT_NE(pixels(1, 2, 3), pixels(1, 2, 4));
}

}  // namespace
}  // namespace lockstep
