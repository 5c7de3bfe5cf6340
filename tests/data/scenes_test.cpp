// Pictures with a mask: what is drawn is what the mask says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "data/open.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Scene {
  std::vector<float> x;
  std::vector<std::int64_t> mask;
  bool operator==(const Scene&) const = default;
};
Scene scene(const Dataset& set, std::uint32_t index) {
  Scene read{std::vector<float>(set.values()), std::vector<std::int64_t>(set.values())};
  set.read({&index, 1}, 0, read.x.data());
  set.read_labels({&index, 1}, 0, read.mask.data());
  return read;
}
Data open(const std::string& keys) { return open_data("scenes:of=digits," + keys, {}); }

TEST(Scenes, SayOfEachPixelWhoseInkItIs) {
  const Data data = open("size=128,digits=6,samples=40");
  EXPECT_EQ(data.train->shape(), (Shape{1, 128, 128}));
  EXPECT_EQ(data.train->label_shape(), (Shape{128, 128}));
  EXPECT_EQ(data.train->classes(), 11);
  std::set<std::int64_t> seen;
  for (std::uint32_t i = 0; i < data.train->size(); ++i) {
    const Scene read = scene(*data.train, i);
    seen.insert(read.mask.begin(), read.mask.end());
    for (std::size_t pixel = 0; pixel < read.x.size(); ++pixel)
      ASSERT_EQ(read.mask[pixel] > 0, read.x[pixel] > 0.3f) << "scene " << i << ", " << pixel;
    const auto digits = std::ranges::count_if(read.mask, [](auto c) { return c > 0; });
    EXPECT_GT(digits, 128 * 128 / 100) << "scene " << i;
    EXPECT_LT(digits, 128 * 128 / 2) << "scene " << i;
  }
  EXPECT_EQ(seen.size(), 11u) << "the background and ten digits";
}

TEST(Scenes, ComeFromSeedAndIndexAlone) {
  const Data one = open("size=64,samples=5"), more = open("size=64,samples=50,test_samples=9");
  EXPECT_EQ(scene(*one.train, 3), scene(*more.train, 3));
  EXPECT_EQ(scene(*one.test, 3), scene(*more.test, 3));
  EXPECT_NE(scene(*one.train, 3), scene(*one.train, 4));
  EXPECT_NE(scene(*one.train, 3), scene(*one.test, 3));
  EXPECT_NE(scene(*one.train, 3), scene(*open("size=64,seed=2").train, 3));
}

// Where MNIST can't be had, generated digits are what is opened again, whatever comes later.
TEST(Scenes, AreOpenedAgainAsTheyWere) {
  const Data data = open_data("scenes:size=32,digits=3,samples=4,test_samples=2,seed=5", {});
  ASSERT_FALSE(data.notices.empty());
  EXPECT_EQ(data.name, "scenes of digits");
  const Data again = open_data(data.spec, {});
  EXPECT_EQ(content_of(again), content_of(data));
  EXPECT_TRUE(again.notices.empty());
}

TEST(Scenes, ContentChangesWithTheMasks) {
  EXPECT_NE(content_of(open("size=32,samples=2")), content_of(open("size=32,samples=2,digits=11")));
}

TEST(Scenes, ImpossibleOnesAreRefused) {
  EXPECT_THAT([] { open("size=8"); },
              ThrowsMessage<UsageError>(HasSubstr("size of 'scenes' must be from 16 to 8192")));
  EXPECT_THAT([] { open_data("scenes:of=cats", {}); },
              ThrowsMessage<UsageError>(HasSubstr("scenes:of=cats: give 'mnist' or 'digits'")));
}

}  // namespace
}  // namespace lockstep
