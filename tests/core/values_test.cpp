#include "core/values.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "core/error.h"
#include "core/total.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

TEST(Values, NamesAndSizes) {
  for (Type t : {Type::fp32, Type::fp64, Type::fp16, Type::bf16, Type::int32, Type::int64})
    EXPECT_EQ(type_named(name_of(t)), t);
  EXPECT_EQ(size_of(Type::bf16), 2u);
  EXPECT_EQ(size_of(Type::int64), 8u);
  try {
    type_named("fp23");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown type 'fp23': did you mean 'fp32'? valid: fp32, fp64, fp16, bf16, int32, int64");
  }
}

TEST(Values, FormatsTellTypeAndOperatorApart) {
  std::set<int> formats;
  for (Type t : {Type::fp32, Type::fp64, Type::fp16, Type::bf16, Type::int32, Type::int64})
    for (Op op : {Op::sum, Op::mean, Op::min, Op::max})
      formats.insert(Values::hollow(1, t, op).format());
  EXPECT_EQ(formats.size(), 24u);
  EXPECT_EQ(formats.count(0), 0u) << "zero means plain bytes";
  for (Op op : {Op::sum, Op::mean, Op::min, Op::max})
    EXPECT_EQ(Values::hollow(1, Type::bytes, op).format(), 0);
  EXPECT_EQ(format_name(Values::hollow(1, Type::fp32, Op::mean).format()), "fp32 mean");
  EXPECT_EQ(format_name(0), "plain bytes");
}

TEST(Values, PlainBytesAreJoinedByNoOperator) {
  std::byte v[3] = {std::byte{1}, std::byte{2}, std::byte{3}}, other[3] = {};
  const Values bytes(v, 3, Type::bytes);
  EXPECT_EQ(bytes.bytes().size, 3u);
  EXPECT_EQ(bytes.part({1, 2}).bytes().data, v + 1);
  EXPECT_THROW(combine(bytes, {other, 3}), InternalError);
  EXPECT_THROW((void)Values::hollow(3, Type::bytes).combine(), InternalError);
  EXPECT_THROW(scale(bytes, 2), InternalError);
  EXPECT_THROW(Total(bytes, 2, 2), InternalError);
  std::byte* const others[] = {other};
  EXPECT_THROW(join_all(bytes, others, 2, true), InternalError);
  EXPECT_EQ(v[0], std::byte{1});
  EXPECT_THROW(type_named("bytes"), UsageError) << "no collective of the command line joins them";
}

TEST(Values, CombineFollowsTheOperator) {
  const float from[3] = {1, 5, -2};
  const auto result = [&](Op op) {
    std::vector<float> v{3, 4, 5};
    combine(Values(v.data(), 3, Type::fp32, op), {from, sizeof from});
    return v;
  };
  EXPECT_THAT(result(Op::sum), ElementsAre(4, 9, 3));
  EXPECT_THAT(result(Op::mean), ElementsAre(4, 9, 3)) << "see total.h for what divides";
  EXPECT_THAT(result(Op::min), ElementsAre(1, 4, -2));
  EXPECT_THAT(result(Op::max), ElementsAre(3, 5, 5));
  float v[2] = {};
  EXPECT_THROW(combine(Values(v, 2, Type::fp32), {from, sizeof from}), InternalError);
}

// 1/3 is not rounded to fp32 first: that would change 31 % of these.
TEST(Values, ScaleRoundsOnce) {
  std::vector<float> v(1000);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i) + 0.1f;
  const std::vector<float> before = v;
  scale(Values(v.data(), v.size(), Type::fp32), 1.0 / 3);
  for (std::size_t i = 0; i < v.size(); ++i)
    ASSERT_EQ(v[i], static_cast<float>(before[i] * (1.0 / 3))) << i;
}

TEST(Values, PartsAreViews) {
  float v[5] = {0, 1, 2, 3, 4};
  const Values part = Values(v, 5, Type::fp32).part({1, 3});
  scale(part, 10);
  EXPECT_THAT(v, ElementsAre(0, 10, 20, 30, 4));
  EXPECT_THROW(part.part({2, 2}), InternalError);
}

TEST(Values, AsAnotherOperatorTheyAreTheSameNumbers) {
  float v[2] = {2, 4};
  const Values mean = Values(v, 2, Type::fp32).as(Op::mean);
  EXPECT_EQ(mean.op(), Op::mean);
  scale(mean, 0.5);
  EXPECT_THAT(v, ElementsAre(1, 2));
}

TEST(Values, HollowOnesPassThroughEverything) {
  const Values hollow = Values::hollow(std::size_t(1) << 40, Type::fp32, Op::mean);
  EXPECT_TRUE(hollow.is_hollow());
  EXPECT_EQ(hollow.bytes().size, std::size_t(1) << 42);
  EXPECT_TRUE(hollow.part({5, 7}).is_hollow());
  EXPECT_FALSE(hollow.combine());
  combine(hollow, {nullptr, hollow.bytes().size});
  scale(hollow, 2);
}

}  // namespace
}  // namespace lockstep
