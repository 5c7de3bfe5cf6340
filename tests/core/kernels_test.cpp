#include "core/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/rng.h"

namespace lockstep {
namespace {

constexpr Type kTypes[] = {Type::fp32, Type::fp64,  Type::fp16,
                           Type::bf16, Type::int32, Type::int64};
constexpr std::size_t kCount = 4099;  // odd, so that vector loops have a tail

// Any bit pattern but a NaN: of two NaNs the standard leaves open which one is kept.
std::vector<std::byte> random_values(Type type, Rng& random) {
  std::vector<std::byte> bytes(kCount * size_of(type));
  for (auto& b : bytes) b = std::byte(random.below(256));
  const auto calm = [&](auto zero, auto exponent) {
    auto* v = reinterpret_cast<decltype(zero)*>(bytes.data());
    for (std::size_t i = 0; i < kCount; ++i)
      if ((v[i] & exponent) == exponent) v[i] &= static_cast<decltype(zero)>(~(exponent >> 1));
  };
  if (type == Type::fp32) calm(std::uint32_t{}, std::uint32_t{0x7f800000});
  if (type == Type::fp64) calm(std::uint64_t{}, std::uint64_t{0x7ff0000000000000});
  if (type == Type::fp16) calm(std::uint16_t{}, std::uint16_t{0x7c00});
  if (type == Type::bf16) calm(std::uint16_t{}, std::uint16_t{0x7f80});
  return bytes;
}

TEST(Kernels, EverySetGivesTheSameBits) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  EXPECT_STREQ(sets[0]->instruction_set, "baseline");
  EXPECT_EQ(&kernels(), sets[n - 1]) << "the widest is used";
  Rng random(1, 0, purpose_of("kernels"));
  for (Type type : kTypes) {
    const auto t = static_cast<std::size_t>(type);
    const auto a = random_values(type, random), b = random_values(type, random);
    for (std::size_t s = 1; s < n; ++s) {
      for (auto row : {&Kernels::add, &Kernels::min, &Kernels::max}) {
        auto expected = a, got = a;
        (sets[0]->*row)[t](expected.data(), b.data(), b.size(), nullptr);
        (sets[s]->*row)[t](got.data(), b.data(), b.size(), nullptr);
        EXPECT_EQ(std::memcmp(expected.data(), got.data(), got.size()), 0)
            << sets[s]->instruction_set << " " << name_of(type);
      }
      auto expected = a, got = a;
      sets[0]->scale[t](expected.data(), kCount, 1.0 / 3);
      sets[s]->scale[t](got.data(), kCount, 1.0 / 3);
      EXPECT_EQ(std::memcmp(expected.data(), got.data(), got.size()), 0)
          << sets[s]->instruction_set << " scale " << name_of(type);
    }
  }
}

// The first of `given`, joined by the others one after the other.
using Buffer = std::vector<std::byte>;
Buffer joined(const Kernels& kernels, Type type, const std::vector<Buffer>& given, bool mean) {
  const auto t = static_cast<std::size_t>(type);
  const std::size_t last = given.size() - 1;
  const bool narrow = type == Type::fp16 || type == Type::bf16;
  Buffer own = given[0], beside(kCount * sizeof(float));
  const Joining state{own.data(), beside.data(), static_cast<int>(given.size())};
  const auto join = [&](std::size_t k) {
    const Beside& b = kernels.beside[t];
    if (last > 1 && last != 3 && k == last && mean && type == Type::fp32)
      return kernels.mean_of_all;
    if (last > 1 && narrow) return k == last ? (mean ? b.mean : b.sum) : k == 1 ? b.first : b.next;
    return k == last && mean ? kernels.mean[t] : kernels.add[t];
  };
  for (std::size_t k = 1; k <= last; ++k)  // in two pieces, as messages come
    for (const auto& [from, to] : {std::pair{std::size_t{0}, kCount / 3}, {kCount / 3, kCount}}) {
      const std::size_t at = from * size_of(type), end = to * size_of(type);
      join(k)(own.data() + at, given[k].data() + at, end - at, &state);
    }
  return own;
}

TEST(Kernels, EverySetJoinsSeveralToTheSameBits) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  Rng random(2, 0, purpose_of("everywhere"));
  for (Type type : kTypes)
    for (std::size_t buffers = 2; buffers <= 9; ++buffers)
      for (const bool mean : {false, true}) {
        std::vector<Buffer> given;
        for (std::size_t b = 0; b < buffers; ++b) given.push_back(random_values(type, random));
        const Buffer expected = joined(*sets[0], type, given, mean);
        for (std::size_t s = 1; s < n; ++s)
          EXPECT_EQ(std::memcmp(joined(*sets[s], type, given, mean).data(), expected.data(),
                                expected.size()),
                    0)
              << sets[s]->instruction_set << " " << name_of(type) << " " << buffers << " " << mean;
        for (std::size_t s = 0; s < n && buffers <= kMostFused; ++s) {
          auto got = given;
          std::byte* at[kMostFused];
          for (std::size_t b = 0; b < buffers; ++b) at[b] = got[b].data();
          const auto& rows = mean ? sets[s]->mean_everywhere : sets[s]->add_everywhere;
          rows[static_cast<std::size_t>(type)][buffers](at, expected.size());
          for (std::size_t b = 0; b < buffers; ++b)
            EXPECT_EQ(std::memcmp(expected.data(), got[b].data(), expected.size()), 0)
                << sets[s]->instruction_set << " " << name_of(type) << " " << buffers
                << " everywhere";
        }
      }
}

// One element through each set; they must agree, and that is the answer.
template <class T>
T through_all(Combine::Function (Kernels::*row)[6], Type type, T a, T b) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  std::vector<T> answers;
  for (std::size_t s = 0; s < n; ++s) {
    std::vector<T> into(64, a), from(64, b);  // wide enough for the vector loop
    (sets[s]->*row)[static_cast<std::size_t>(type)](into.data(), from.data(), 64 * sizeof(T),
                                                    nullptr);
    for (T x : into) EXPECT_EQ(std::memcmp(&x, &into[0], sizeof x), 0);
    answers.push_back(into[0]);
  }
  for (T x : answers) EXPECT_EQ(std::memcmp(&x, &answers[0], sizeof x), 0);
  return answers[0];
}

using Half = std::uint16_t;
Half add16(Type type, Half a, Half b) { return through_all(&Kernels::add, type, a, b); }

TEST(Kernels, Bf16RoundsToNearestEven) {
  const Half one = 0x3f80, ulp = 0x3c00;  // 1 and 2^-7, the last place of 1
  EXPECT_EQ(add16(Type::bf16, one, ulp), 0x3f81);
  EXPECT_EQ(add16(Type::bf16, one, 0x3b80), 0x3f80) << "1 + half: the even one is below";
  EXPECT_EQ(add16(Type::bf16, 0x3f81, 0x3b80), 0x3f82) << "odd + half: the even one is above";
  EXPECT_EQ(add16(Type::bf16, one, 0x3bc0), 0x3f81) << "more than half";
  EXPECT_EQ(add16(Type::bf16, 0x7f7f, 0x7f7f), 0x7f80) << "overflow is infinity";
  EXPECT_EQ(add16(Type::bf16, 0x0001, 0x0001), 0x0002) << "subnormals are not flushed";
}

TEST(Kernels, Fp16RoundsToNearestEven) {
  const Half one = 0x3c00;
  EXPECT_EQ(add16(Type::fp16, one, 0x1400), 0x3c01) << "1 + 2^-10";
  EXPECT_EQ(add16(Type::fp16, one, 0x1000), 0x3c00) << "1 + half: the even one is below";
  EXPECT_EQ(add16(Type::fp16, 0x3c01, 0x1000), 0x3c02) << "odd + half: the even one is above";
  EXPECT_EQ(add16(Type::fp16, 0x7bff, 0x7bff), 0x7c00) << "overflow is infinity";
  EXPECT_EQ(add16(Type::fp16, 0x0001, 0x0001), 0x0002) << "subnormals are not flushed";
}

TEST(Kernels, NanAndInfinityAreKept) {
  const auto is_nan16 = [](Type type, Half x) {
    return type == Type::bf16 ? (x & 0x7fff) > 0x7f80 : (x & 0x7fff) > 0x7c00;
  };
  for (Type type : {Type::bf16, Type::fp16}) {
    const Half infinity = type == Type::bf16 ? 0x7f80 : 0x7c00;
    const Half nan = infinity | 1, one = type == Type::bf16 ? 0x3f80 : 0x3c00;
    EXPECT_TRUE(is_nan16(type, add16(type, nan, one))) << "even the NaN that a shift would lose";
    EXPECT_TRUE(is_nan16(type, add16(type, one, nan)));
    EXPECT_TRUE(is_nan16(type, add16(type, infinity, Half(infinity | 0x8000))));
    EXPECT_EQ(add16(type, infinity, one), infinity);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(through_all(&Kernels::add, Type::fp32, infinity, 1.f), infinity);
  EXPECT_TRUE(std::isnan(through_all(&Kernels::add, Type::fp32, std::nanf(""), 1.f)));
  EXPECT_TRUE(std::isnan(through_all(&Kernels::add, Type::fp64, infinity + 0., -infinity + 0.)));
}

TEST(Kernels, IntegersWrapAround) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  constexpr auto most64 = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(through_all(&Kernels::add, Type::int32, most, 1), -most - 1);
  EXPECT_EQ(through_all(&Kernels::add, Type::int64, most64, std::int64_t{1}), -most64 - 1);
}

TEST(Kernels, MinAndMax) {
  EXPECT_EQ(through_all(&Kernels::min, Type::int32, 3, -5), -5);
  EXPECT_EQ(through_all(&Kernels::max, Type::int32, 3, -5), 3);
  EXPECT_EQ(through_all(&Kernels::min, Type::fp32, 3.f, -5.f), -5.f);
  EXPECT_EQ(through_all(&Kernels::max, Type::fp64, 3., 5.), 5.);
  EXPECT_EQ(through_all(&Kernels::max, Type::bf16, Half(0x3f80), Half(0xbf80)), 0x3f80);
  EXPECT_EQ(through_all(&Kernels::min, Type::fp16, Half(0x3c00), Half(0xbc00)), 0xbc00);
}

TEST(Kernels, SgdGivesTheSameBitsInEverySet) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  Rng random(2, 0, purpose_of("sgd"));
  std::vector<float> w(kCount), g(kCount), m(kCount);
  for (auto* v : {&w, &g, &m})
    for (float& x : *v) x = static_cast<float>(random.normal());
  for (float decay : {0.0f, 0.01f})
    for (float look_ahead : {0.0f, 0.9f})
      for (bool momentum : {false, true}) {
        const SgdRule rule{-0.1f, decay, 0.9f, 0.7f, look_ahead};
        std::vector<float> expected_w, expected_m;
        for (std::size_t s = 0; s < n; ++s) {
          auto ws = w, gs = g, ms = m;
          sets[s]->sgd(rule, ws.data(), gs.data(), momentum ? ms.data() : nullptr, kCount);
          if (s == 0) expected_w = ws, expected_m = ms;
          EXPECT_EQ(ws, expected_w) << sets[s]->instruction_set;
          EXPECT_EQ(ms, expected_m) << sets[s]->instruction_set;
          EXPECT_EQ(gs, std::vector<float>(kCount)) << "consumed gradients are zero";
        }
      }
}

TEST(Kernels, FiniteFindsOneBadNumberAnywhere) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  for (std::size_t s = 0; s < n; ++s) {
    std::vector<float> v(67, std::numeric_limits<float>::max());
    EXPECT_TRUE(sets[s]->finite(v.data(), v.size()));
    for (float& x : v) {
      for (float bad :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN()}) {
        x = bad;
        EXPECT_FALSE(sets[s]->finite(v.data(), v.size())) << sets[s]->instruction_set;
      }
      x = -0.0f;
    }
  }
}

}  // namespace
}  // namespace lockstep
