#include "core/total.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

constexpr Type kTypes[] = {Type::fp32, Type::fp64,  Type::fp16,
                           Type::bf16, Type::int32, Type::int64};
using Buffer = std::vector<std::byte>;

// Finite numbers of all sizes up to a thousandth of the largest, so that no sum of a thousand
// overflows.
Buffer numbers(Type type, std::size_t count, Rng& random) {
  Buffer bytes(count * size_of(type));
  for (std::byte& b : bytes) b = std::byte(random.below(256));
  const auto tame = [&](auto zero, int exponent_at, int exponent_bits) {
    using U = decltype(zero);
    const U most = static_cast<U>((U{1} << exponent_bits) - 1 - 11);
    U* v = reinterpret_cast<U*>(bytes.data());
    for (std::size_t i = 0; i < count; ++i) {
      const U mask = static_cast<U>(((U{1} << exponent_bits) - 1) << exponent_at);
      const U exponent = static_cast<U>((v[i] & mask) >> exponent_at);
      v[i] = static_cast<U>((v[i] & ~mask) | (static_cast<U>(exponent % most) << exponent_at));
    }
  };
  if (type == Type::fp32) tame(std::uint32_t{}, 23, 8);
  if (type == Type::fp64) tame(std::uint64_t{}, 52, 11);
  if (type == Type::fp16) tame(std::uint16_t{}, 10, 5);
  if (type == Type::bf16) tame(std::uint16_t{}, 7, 8);
  if (type == Type::int32) tame(std::uint32_t{}, 20, 11);
  if (type == Type::int64) tame(std::uint64_t{}, 52, 11);
  return bytes;
}

// `own` and the others, joined piece by piece as messages would come; or all at once.
Buffer through_total(std::vector<Buffer> operands, Type type, Op op, int ranks,
                     std::size_t piece = 7) {
  Buffer& own = operands[0];
  const std::size_t count = own.size() / size_of(type);
  const Total total(Values(own.data(), count, type, op), static_cast<int>(operands.size()), ranks);
  for (std::size_t k = 1; k < operands.size(); ++k)
    for (std::size_t at = 0; at < count; at += piece) {
      const std::size_t begin = at * size_of(type);
      const std::size_t size = std::min(piece, count - at) * size_of(type);
      total.joining(static_cast<int>(k))(own.data() + begin, operands[k].data() + begin, size);
    }
  return own;
}

Buffer at_once(std::vector<Buffer> operands, Type type, Op op, int ranks, bool everywhere = false) {
  std::vector<std::byte*> others;
  for (std::size_t k = 1; k < operands.size(); ++k) others.push_back(operands[k].data());
  const std::size_t count = operands[0].size() / size_of(type);
  join_all(Values(operands[0].data(), count, type, op), others, ranks, everywhere);
  for (std::size_t k = 1; everywhere && k < operands.size(); ++k)
    EXPECT_EQ(operands[k], operands[0]) << k;
  return operands[0];
}

TEST(Total, EqualVectorsComeBackToTheBit) {
  Rng random(1, 0, purpose_of("equal"));
  for (const Type type : {Type::fp32, Type::fp16, Type::bf16})
    for (int m = 1; m <= 1000; ++m) {
      const std::size_t count = m <= 8 ? 50'000 : 64;
      const Buffer x = numbers(type, count, random);
      const std::vector<Buffer> all(m, x);
      ASSERT_EQ(through_total(all, type, Op::mean, m, count), x) << name_of(type) << " " << m;
      ASSERT_EQ(at_once(all, type, Op::mean, m, m % 2 == 0), x) << name_of(type) << " " << m;
    }
}

TEST(Total, PieceByPieceOrAtOnceOrEverywhereGivesTheSameBits) {
  Rng random(2, 0, purpose_of("pieces"));
  for (const Type type : kTypes)
    for (const Op op : {Op::sum, Op::mean, Op::min, Op::max})
      for (const int m : {2, 3, 4, 5, 9})
        for (const int ranks : {0, m, m + 3}) {
          std::vector<Buffer> operands;
          for (int k = 0; k < m; ++k) operands.push_back(numbers(type, 5003, random));
          const Buffer expected = through_total(operands, type, op, ranks);
          const auto what = ::testing::Message() << name_of(type) << " " << name_of(op) << " of "
                                                 << m << " among " << ranks;
          EXPECT_EQ(at_once(operands, type, op, ranks), expected) << what;
          EXPECT_EQ(at_once(operands, type, op, ranks, true), expected) << what;
        }
}

// Integers whose sums are exact: what any other order of adding gives.
TEST(Total, MeansOfWholeNumbersAreTheirSumDivided) {
  Rng random(3, 0, purpose_of("whole"));
  for (int m = 2; m <= 50; ++m) {
    std::vector<Buffer> operands(m, Buffer(100 * sizeof(float)));
    std::vector<int> sums(100);
    for (Buffer& operand : operands)
      for (int i = 0; i < 100; ++i) {
        const int x = static_cast<int>(random.below(20001)) - 10000;
        sums[i] += x;
        reinterpret_cast<float*>(operand.data())[i] = static_cast<float>(x);
      }
    const Buffer mean = at_once(operands, Type::fp32, Op::mean, m);
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(reinterpret_cast<const float*>(mean.data())[i],
                static_cast<float>(static_cast<double>(sums[i]) / m))
          << m;
  }
}

// Operands so near each other that the sum of the others is often that of copies of the last one,
// by chance: the mean is that one then, off by no more than all_reduce.h states.
TEST(Total, MeansOfNearlyEqualVectorsAreWithinTheirBound) {
  constexpr std::size_t kCount = 1000;
  Rng random(4, 0, purpose_of("nearly"));
  for (const int m : {3, 5, 6, 7, 13, 24, 100, 1000}) {
    std::vector<Buffer> operands(m, numbers(Type::fp32, kCount, random));
    std::vector<double> sums(kCount), magnitudes(kCount);
    for (Buffer& operand : operands)
      for (std::size_t i = 0; i < kCount; ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, operand.data() + 4 * i, sizeof bits);
        bits += static_cast<std::uint32_t>(random.below(3));
        std::memcpy(operand.data() + 4 * i, &bits, sizeof bits);
        sums[i] += std::bit_cast<float>(bits),
            magnitudes[i] += std::abs(std::bit_cast<float>(bits));
      }
    const Buffer mean = at_once(operands, Type::fp32, Op::mean, m);
    int by_chance = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      float got, last;
      std::memcpy(&got, mean.data() + 4 * i, sizeof got);
      std::memcpy(&last, operands.back().data() + 4 * i, sizeof last);
      by_chance += got == last;
      ASSERT_LE(std::abs(got - sums[i] / m),
                (2 * (m - 2) + 1) * 0x1p-24 * magnitudes[i] / m + 0x1p-149)
          << m;
    }
    EXPECT_GT(by_chance, 10) << m;
  }
}

TEST(Total, AnInfiniteSumIsNoSumOfCopies) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float large = std::numeric_limits<float>::max() / 4;
  std::vector<float> x{infinity, large, large, large, large, large, large, large};
  const auto mean = [&] {
    std::vector<Buffer> operands;
    for (const float& one : x)
      operands.emplace_back(reinterpret_cast<const std::byte*>(&one),
                            reinterpret_cast<const std::byte*>(&one + 1));
    const Buffer got = through_total(operands, Type::fp32, Op::mean, static_cast<int>(x.size()));
    float result;
    std::memcpy(&result, got.data(), sizeof result);
    return result;
  };
  EXPECT_EQ(mean(), infinity);
  x.assign(8, -0.f);
  EXPECT_TRUE(std::signbit(mean()));
  x[0] = 0;
  EXPECT_EQ(mean(), 0);
  EXPECT_FALSE(std::signbit(mean()));
  x[3] = std::nanf("");
  EXPECT_TRUE(std::isnan(mean()));
}

// A server would map and fault in such memory anew in every step.
TEST(Total, MeansOfFp32KeepNothingBesideTheValues) {
  std::byte somewhere;
  const Values vast(&somewhere, std::size_t(1) << 45, Type::fp32, Op::mean);
  for (const int m : {2, 3, 4, 7, 24, 1000}) EXPECT_NO_THROW(Total(vast, m, m)) << m;
}

using Half = std::uint16_t;
Half joined(Type type, Op op, std::vector<Half> operands, int ranks) {
  std::vector<Buffer> buffers;
  for (const Half x : operands) {
    buffers.emplace_back(sizeof x);
    std::memcpy(buffers.back().data(), &x, sizeof x);
  }
  const Buffer total = through_total(buffers, type, op, ranks);
  EXPECT_EQ(at_once(buffers, type, op, ranks), total);
  EXPECT_EQ(at_once(buffers, type, op, ranks, true), total);
  Half result;
  std::memcpy(&result, total.data(), sizeof result);
  return result;
}

TEST(Total, HalvesAreRoundedWhenTheLastHasJoined) {
  // 1 + 3/8 + 3/8 of a last place: each alone would be lost.
  EXPECT_EQ(joined(Type::fp16, Op::sum, {0x3c00, 0x0e00, 0x0e00}, 0), 0x3c01);
  EXPECT_EQ(joined(Type::bf16, Op::sum, {0x3f80, 0x3b40, 0x3b40}, 0), 0x3f81);
  const std::vector<Half> ones(9, 0x0e00);  // 27/8 of a last place of 1
  std::vector<Half> many = ones;
  many.insert(many.begin(), 0x3c00);
  EXPECT_EQ(joined(Type::fp16, Op::sum, many, 0), 0x3c03);
  // The sum is larger than fp16 can be, and the mean is not.
  EXPECT_EQ(joined(Type::fp16, Op::mean, {0x7bff, 0x7bff, 0x7bff}, 3), 0x7bff);
  EXPECT_EQ(joined(Type::fp16, Op::mean, {0x7bff, 0x7bff}, 2), 0x7bff);
  EXPECT_EQ(joined(Type::fp16, Op::sum, {0x7bff, 0x7bff, 0x7bff}, 3), 0x7c00) << "infinity";
  EXPECT_EQ(joined(Type::bf16, Op::max, {0x3f80, 0x3b40, 0x3fc0}, 3), 0x3fc0);
}

TEST(Total, MeansOfIntegersAreTheNearest) {
  const auto mean = [](auto sum, int ranks) {  // of `sum` and zero, among so many
    decltype(sum) own = 0;
    constexpr Type type = sizeof own == 4 ? Type::int32 : Type::int64;
    const Total total(Values(&own, 1, type, Op::mean), 2, ranks);
    total.joining(1)(&own, &sum, sizeof sum);
    return own;
  };
  EXPECT_EQ(mean(7, 2), 4) << "a half goes away from zero";
  EXPECT_EQ(mean(-7, 2), -4);
  EXPECT_EQ(mean(8, 2), 4);
  EXPECT_EQ(mean(1, 2), 1);
  EXPECT_EQ(mean(4, 3), 1);
  EXPECT_EQ(mean(5, 3), 2);
  EXPECT_EQ(mean(std::int64_t{-4}, 3), -1);
  EXPECT_EQ(mean(std::int64_t{-5}, 3), -2);
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(mean(most, most), 1);
  EXPECT_EQ(mean(-most, most), -1);
  EXPECT_EQ(mean(-most - 1, most), -1);
  for (int ranks = 1; ranks <= 1000; ++ranks) {
    ASSERT_EQ(mean(ranks, ranks), 1) << ranks;
    ASSERT_EQ(mean(std::int64_t{ranks}, ranks), 1) << ranks;
  }
}

TEST(Total, ZeroKeepsItsSign) {
  const auto mean = [](std::vector<float> x) {
    std::byte* others[] = {reinterpret_cast<std::byte*>(&x[1]),
                           reinterpret_cast<std::byte*>(&x[2])};
    join_all(Values(x.data(), 1, Type::fp32, Op::mean), others, 3);
    return x[0];
  };
  EXPECT_TRUE(std::signbit(mean({-0.f, -0.f, -0.f})));
  EXPECT_FALSE(std::signbit(mean({0.f, 0.f, 0.f})));
  EXPECT_TRUE(std::isnan(mean({1.f, std::nanf(""), 1.f})));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(mean({1.f, infinity, 1.f}), infinity);
  EXPECT_EQ(mean({infinity, infinity, infinity}), infinity);
}

TEST(Total, DistancesLeaveTheValuesAlone) {
  float own[3] = {1, 2, 3}, apart[3] = {9, 9, 9};
  const float a[3] = {1, 5, 0}, b[3] = {2, 2, 3};
  const Total total(Values(own, 3, Type::fp32), Values(apart, 3, Type::fp32));
  total.joining(1)(own, a, sizeof a);
  EXPECT_THAT(apart, ElementsAre(0, -3, 3));
  total.joining(2)(own, b, sizeof b);
  EXPECT_THAT(apart, ElementsAre(-1, -3, 3));
  EXPECT_THAT(own, ElementsAre(1, 2, 3));
  EXPECT_THROW(Total(Values(own, 3, Type::fp32), Values(apart, 2, Type::fp32)), InternalError);
}

TEST(Total, HollowOnesNeedNothing) {
  const Values hollow = Values::hollow(std::size_t(1) << 40, Type::bf16, Op::mean);
  EXPECT_FALSE(Total(hollow, 3, 3).joining(1));
  std::byte* none[] = {nullptr, nullptr};
  join_all(hollow, none, 3);
}

}  // namespace
}  // namespace lockstep
