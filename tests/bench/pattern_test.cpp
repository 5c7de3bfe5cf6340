#include "bench/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::bench {
namespace {

class PatternOfType : public ::testing::TestWithParam<Type> {};

TEST_P(PatternOfType, SumOfContributionsIsExactUpToTheMostRanks) {
  const Type type = GetParam();
  const int ranks = std::min(most_ranks(type), 300);
  const std::size_t count = 5 * 1024 + 3;  // over one block, and not a whole number of periods
  std::vector<std::byte> total(count * size_of(type)), one(total.size());
  const Values values(total.data(), count, type);
  fill(values.bytes(), type, contribution(0));
  for (int r = 1; r < ranks; ++r) {
    fill({one.data(), one.size()}, type, contribution(r));
    combine(values, {one.data(), one.size()});
  }
  EXPECT_EQ(count_wrong(values.bytes(), type, sum_of_contributions(ranks)), 0u);
}

TEST_P(PatternOfType, EveryBadElementIsCounted) {
  const Type type = GetParam();
  const std::size_t count = 10'000, width = size_of(type);
  std::vector<std::byte> bytes(count * width);
  fill({bytes.data(), bytes.size()}, type, sum_of_contributions(3));
  for (std::size_t i : {std::size_t{0}, std::size_t{7'777}, count - 1})
    bytes[i * width] ^= std::byte{1};
  EXPECT_EQ(count_wrong({bytes.data(), bytes.size()}, type, sum_of_contributions(3)), 3u);
}

INSTANTIATE_TEST_SUITE_P(Types, PatternOfType,
                         ::testing::Values(Type::fp32, Type::fp64, Type::fp16, Type::bf16,
                                           Type::int32, Type::int64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Pattern, AMissingRankIsSeen) {
  std::vector<float> values(100);
  const Bytes bytes{reinterpret_cast<std::byte*>(values.data()), 400};
  fill(bytes, Type::fp32, sum_of_contributions(3));
  EXPECT_EQ(count_wrong(bytes, Type::fp32, sum_of_contributions(4)), 100u);
}

TEST(Pattern, APartIsHeldAgainstItsPlaceInTheWhole) {
  std::vector<float> values(6000);
  const Bytes bytes{reinterpret_cast<std::byte*>(values.data()), 24000};
  fill(bytes, Type::fp32, {2, 3});
  EXPECT_EQ(count_wrong(bytes.part(28, 23972), Type::fp32, {2, 3}, 7), 0u);
  EXPECT_EQ(count_wrong(bytes.part(28, 23972), Type::fp32, {2, 3}, 8), 5993u);
}

TEST(Pattern, HollowBytesArePassedOver) {
  fill({nullptr, 1u << 30}, Type::fp32, contribution(0));
  EXPECT_EQ(count_wrong({nullptr, 1u << 30}, Type::fp32, contribution(0)), 0u);
}

}  // namespace
}  // namespace lockstep::bench
