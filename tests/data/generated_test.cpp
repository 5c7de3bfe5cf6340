// Sets that are made here: digits and synthetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "data/open.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> read(const Dataset& set, std::vector<std::uint32_t> indices) {
  std::vector<float> x(indices.size() * set.values());
  set.read(indices, 0, x.data());
  return x;
}

// The share of test digits whose nearest train digit has their class.
double nearest_neighbour_score(const Dataset& train, const Dataset& test) {
  std::vector<float> known(train.size() * train.values()), x(test.values());
  for (std::uint32_t i = 0; i < train.size(); ++i)
    train.read(std::array{i}, 0, &known[i * train.values()]);
  int right = 0;
  for (std::uint32_t t = 0; t < test.size(); ++t) {
    test.read(std::array{t}, 0, x.data());
    float nearest = INFINITY;
    std::size_t found = 0;
    for (std::size_t i = 0; i < train.size(); ++i) {
      float distance = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float d = known[i * x.size() + k] - x[k];
        distance += d * d;
      }
      if (distance < nearest) nearest = distance, found = i;
    }
    right += train.labels()[found] == test.labels()[t];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(Digits, AreLearnableAndNotTrivial) {
  const Data data = open_data("digits:samples=2000,test_samples=300", {});
  const double score = nearest_neighbour_score(*data.train, *data.test);
  EXPECT_GT(score, .6);
  EXPECT_LT(score, .97);
}

TEST(Digits, AreTheSameForTheSameSeed) {
  const auto pixels = [](const char* spec) { return read(*open_data(spec, {}).train, {0, 1, 99}); };
  EXPECT_EQ(pixels("digits:samples=100,test_samples=1"),
            pixels("digits:samples=100,test_samples=9,seed=1"));
  EXPECT_NE(pixels("digits:samples=100,test_samples=1"),
            pixels("digits:samples=100,test_samples=1,seed=2"));
}

TEST(Digits, ALimitKeepsTheFirstAndTheTestSet) {
  const Data all = open_data("digits:samples=100,test_samples=10", {});
  const Data some = open_data("digits:samples=100,test_samples=10", {20, 5, {}, {}});
  EXPECT_EQ(some.train->size(), 20u);
  EXPECT_EQ(read(*some.train, {19}), read(*all.train, {19}));
  EXPECT_EQ(read(*some.test, {4}), read(*all.test, {4}));
}

TEST(Digits, HaveAllClassesAndAboutMnistsBrightness) {
  const Data data = open_data("digits:samples=1000,test_samples=1", {});
  std::vector<int> counts(10);
  for (int label : data.train->labels()) ++counts[label];
  EXPECT_THAT(counts, ::testing::Each(::testing::Gt(60)));
  double sum = 0, squares = 0;
  for (std::uint32_t i = 0; i < 1000; ++i)
    for (float value : read(*data.train, {i})) sum += value, squares += value * value;
  const double mean = sum / 784000, deviation = std::sqrt(squares / 784000 - mean * mean);
  EXPECT_NEAR(mean, 0, .15);
  EXPECT_NEAR(deviation, 1, .2);
}

TEST(Synthetic, HasTheShapeAskedFor) {
  const Data data = open_data("synthetic:shape=2x3x4x5,classes=7,samples=20", {});
  EXPECT_THAT(data.train->shape(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(data.train->values(), 120u);
  EXPECT_EQ(data.train->classes(), 7);
  EXPECT_EQ(data.train->size(), 20u);
  EXPECT_EQ(data.train->labels()[8], 1);
}

TEST(Synthetic, RepeatsAndDiffersBetweenSamples) {
  const Data data = open_data("synthetic", {}), again = open_data("synthetic", {});
  EXPECT_EQ(read(*data.train, {3, 1000}), read(*again.train, {3, 1000}));
  EXPECT_NE(read(*data.train, {3}), read(*data.train, {4}));
  EXPECT_NE(read(*data.train, {3}), read(*data.test, {3}));
}

TEST(Synthetic, RefusesWhatIsNoShape) {
  for (const char* spec : {"synthetic:shape=3x", "synthetic:shape=0x3", "synthetic:shape=ax3",
                           "synthetic:shape=99999x99999", "synthetic:samples=0"})
    EXPECT_THROW(open_data(spec, {}), UsageError) << spec;
}

}  // namespace
}  // namespace lockstep
