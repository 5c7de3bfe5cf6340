// Batches as tensors: the right ones, in order, whoever reads them.
#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
#include "data/files.h"
#include "data/open.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sample i is {i, i + variation}; pretends to be slow, and fails at one sample.
class Counting : public Dataset {
 public:
  explicit Counting(std::size_t samples, std::uint32_t bad = ~0u)
      : Dataset({{2}, std::vector<int>(samples, 1), 3}), bad_(bad) {}
  void read(std::span<const std::uint32_t> indices, std::uint64_t variation,
            float* x) const override {
    for (std::uint32_t index : indices) {
      if (index == bad_) throw Error("sample 13 is bad");
      *x++ = static_cast<float>(index);
      *x++ = static_cast<float>(index + variation);
    }
  }
  bool slow() const override { return true; }

 private:
  std::uint32_t bad_;
};

// The set in its own order.
std::function<Picks(std::uint64_t)> in_order(std::size_t samples, std::size_t batch) {
  return [=](std::uint64_t number) {
    const std::size_t begin = std::min(samples, static_cast<std::size_t>(number) * batch);
    Picks picks{std::vector<std::uint32_t>(std::min(batch, samples - begin))};
    std::iota(picks.indices.begin(), picks.indices.end(), static_cast<std::uint32_t>(begin));
    return picks;
  };
}

TEST(Loader, MakesTensorsOfThePlansSamples) {
  const Data data = open_data("digits:samples=50,test_samples=1", {});
  Loader loader(
      *data.train,
      [](std::uint64_t) {
        return Picks{{7, 3, 7}, 0};
      },
      1);
  const Batch batch = loader.batch(0);
  EXPECT_EQ(batch.x.sizes(), (std::vector<std::int64_t>{3, 1, 28, 28}));
  EXPECT_EQ(batch.x.scalar_type(), torch::kFloat32);
  EXPECT_EQ(batch.y[1].item<std::int64_t>(), data.train->labels()[3]);
  EXPECT_TRUE(batch.x[0].equal(batch.x[2]));
  EXPECT_FALSE(batch.x[0].equal(batch.x[1]));
}

TEST(Loader, MakesTensorsOfMasksAndOfTokens) {
  const auto first_two = [](const Dataset& set) { return Loader(set, in_order(2, 2), 1).batch(0); };
  const Data scenes = open_data("scenes:of=digits,size=32,samples=2", {});
  EXPECT_EQ(first_two(*scenes.train).x.sizes(), (std::vector<std::int64_t>{2, 1, 32, 32}));
  EXPECT_EQ(first_two(*scenes.train).y.sizes(), (std::vector<std::int64_t>{2, 32, 32}));

  const testing::Folder folder;
  testing::write_file(folder / "text", "abcabcabcabcabcabcabca");
  const Data text = open_data("text:" + folder.text() + "/text" + ",context=4,test=0.3", {});
  const Batch batch = first_two(*text.train);
  EXPECT_EQ(batch.x.scalar_type(), torch::kInt64);
  EXPECT_TRUE(batch.x.equal(torch::tensor({{0, 1, 2, 0}, {1, 2, 0, 1}})));
  EXPECT_TRUE(batch.y.equal(torch::tensor({{1, 2, 0, 1}, {2, 0, 1, 2}})));
}

TEST(Loader, AnEmptyBatchHasNoSamples) {
  const Counting set(10);
  Loader loader(
      set, [](std::uint64_t) { return Picks{}; }, 1);
  EXPECT_EQ(loader.batch(0).x.sizes(), (std::vector<std::int64_t>{0, 2}));
}

TEST(Loader, ReadsTheSameWithAnyNumberOfThreads) {
  const Counting set(1000);
  const auto picks = [](std::uint64_t number) {
    Picks picks{{}, number};
    for (std::uint32_t i = 0; i < 17; ++i)
      picks.indices.push_back(static_cast<std::uint32_t>(number * 17 + i));
    return picks;
  };
  for (int threads : {0, 1, 3}) {
    ReaderPool pool(threads);
    Loader loader(set, picks, 50, &pool, 3);
    for (std::uint64_t number = 0; number < 50; ++number) {
      const Batch batch = loader.batch(number);
      for (int i = 0; i < 17; ++i) {
        EXPECT_EQ(batch.x[i][0].item<float>(), static_cast<float>(number * 17 + i));
        EXPECT_EQ(batch.x[i][1].item<float>(), static_cast<float>(number * 18 + i));
      }
    }
  }
}

TEST(Loader, GoesBackAndForthWhenAsked) {
  const Counting set(100);
  ReaderPool pool(2);
  Loader loader(set, in_order(100, 10), 10, &pool);
  for (std::uint64_t number : {0, 1, 5, 4, 9, 0})
    EXPECT_EQ(loader.batch(number).x[3][0].item<float>(), static_cast<float>(number * 10 + 3));
}

TEST(Loader, InOrderEndsWithAShortBatch) {
  const Counting set(25);
  Loader loader(set, in_order(25, 10), 3);
  EXPECT_EQ(loader.batch(2).x.size(0), 5);
}

TEST(Loader, ErrorsOfReadingSurfaceWithTheirBatch) {
  const Counting set(100, 13);
  ReaderPool pool(2);
  Loader loader(set, in_order(100, 10), 10, &pool);
  EXPECT_NO_THROW(loader.batch(0));
  EXPECT_THAT([&] { loader.batch(1); }, ThrowsMessage<Error>(HasSubstr("sample 13 is bad")));
  EXPECT_NO_THROW(loader.batch(2));
}

TEST(Loader, ManyShareOnePoolAndLeaveEarly) {
  const Counting set(1000);
  ReaderPool pool(2);
  for (int round = 0; round < 20; ++round) {
    Loader one(set, in_order(1000, 100), 10, &pool), other(set, in_order(1000, 50), 20, &pool);
    EXPECT_EQ(one.batch(1).x[0][0].item<float>(), 100);
    EXPECT_EQ(other.batch(3).x[0][0].item<float>(), 150);
  }
}

TEST(Loader, RefusesASampleThatIsNotThere) {
  const Counting set(10);
  Loader loader(
      set,
      [](std::uint64_t) {
        return Picks{{10}, 0};
      },
      1);
  EXPECT_THROW(loader.batch(0), InternalError);
}

}  // namespace
}  // namespace lockstep
