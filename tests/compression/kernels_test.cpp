#include "compression/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "specs.h"

namespace lockstep {
namespace {

std::vector<const CodeKernels*> sets() {
  const CodeKernels* found[3];
  const std::size_t n = code_kernel_sets(found);
  return {found, found + n};
}

// What `run` gives must be the same of every set.
template <class Run>
void expect_same_bits(const char* what, std::size_t count, Run run) {
  const auto expected = run(*sets()[0]);
  for (const CodeKernels* set : sets()) {
    const auto got = run(*set);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(got[0])), 0)
        << what << " of " << count << " by " << set->instruction_set;
  }
}

// Any bits, but for a NaN.
Numbers any_numbers(std::size_t count, std::uint64_t seed) {
  Rng random(seed, 0, purpose_of("any"));
  Numbers numbers(count);
  for (float& x : numbers) {
    x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) x = 0;
  }
  return numbers;
}

using Codes = std::vector<std::uint8_t>;

TEST(CodeKernels, EverySetNarrowsAndWidensToTheSameBits) {
  EXPECT_STREQ(sets()[0]->instruction_set, "baseline");
  EXPECT_EQ(&code_kernels(), sets().back());
  for (const std::size_t n : odd_sizes()) {
    const Numbers v = any_numbers(n, 1), base = normal_numbers(n, 2);
    for (const int type : {0, 1}) {
      std::vector<std::uint16_t> words(n);
      expect_same_bits("narrow", n, [&](const CodeKernels& k) {
        k.narrow[type](v.data(), 0.5f, words.data(), n);
        return words;
      });
      const auto finite = normal_numbers(n, 3);
      code_kernels().narrow[type](finite.data(), 1, words.data(), n);
      expect_same_bits("widen", n, [&](const CodeKernels& k) {
        Numbers into(n);
        k.widen[type](words.data(), 3, into.data(), n);
        return into;
      });
      expect_same_bits("add_widened", n, [&](const CodeKernels& k) {
        Numbers into = base;
        k.add_widened[type](words.data(), 1.f / 3, into.data(), n);
        return into;
      });
    }
  }
}

TEST(CodeKernels, EverySetSumsToTheSameBits) {
  for (const std::size_t n : odd_sizes()) {
    const Numbers v = normal_numbers(n, 4), w = normal_numbers(n, 5);
    expect_same_bits("sums", n, [&](const CodeKernels& k) {
      const TwoSums two = k.two_sums(v.data(), n);
      return std::vector<double>{k.sum(v.data(), n),
                                 k.sum_of_magnitudes(v.data(), n),
                                 k.sum_of_squares(v.data(), n),
                                 k.dot(v.data(), w.data(), n),
                                 two.below,
                                 two.others,
                                 static_cast<double>(two.count_below),
                                 static_cast<double>(k.largest(v.data(), n))};
    });
    double sum = 0;
    for (const float x : v) sum += x;
    EXPECT_NEAR(code_kernels().sum(v.data(), n), sum, 1e-9);
  }
}

TEST(CodeKernels, EverySetQuantisesToTheSameBits) {
  for (const std::size_t n : odd_sizes()) {
    const Numbers v = normal_numbers(n, 6), base = normal_numbers(n, 7);
    for (const int levels : {1, 20, 127}) {
      expect_same_bits("nearest", n, [&](const CodeKernels& k) {
        Codes codes(n);
        k.nearest(v.data(), 30, levels, codes.data(), n);
        return codes;
      });
      expect_same_bits("drawn", n, [&](const CodeKernels& k) {
        Codes codes(n);
        k.drawn(v.data(), 30, levels, 0x123456789abcdef, 77, codes.data(), n);
        return codes;
      });
    }
    Codes codes(n);
    code_kernels().nearest(v.data(), 30, 100, codes.data(), n);
    expect_same_bits("signs", n, [&](const CodeKernels& k) {
      Codes bits(n);
      k.signs(v.data(), bits.data(), n);
      return bits;
    });
    expect_same_bits("pack_signs", n, [&](const CodeKernels& k) {
      Codes packed(n / 8 + 8, 0xaa), expected = packed, bits(n);
      const double sum = k.pack_signs(v.data(), packed.data(), n);
      k.signs(v.data(), bits.data(), n);
      for (std::size_t at = 0; at + kPacked <= n; at += kPacked)
        k.pack[1](bits.data() + at, expected.data() + at / 8);
      EXPECT_EQ(sum, k.sum_of_magnitudes(v.data(), n)) << k.instruction_set << " " << n;
      EXPECT_EQ(packed, expected) << k.instruction_set << " " << n;
      return packed;
    });
    expect_same_bits("units and either", n, [&](const CodeKernels& k) {
      Numbers into = base;
      k.add_units(codes.data(), 100, 0.3f, into.data(), n);
      k.add_either(codes.data(), 0.1f, -0.7f, into.data(), n);
      Numbers more(2 * n);
      k.units(codes.data(), 100, 0.3f, more.data(), n);
      k.either(codes.data(), 0.1f, -0.7f, more.data() + n, n);
      into.insert(into.end(), more.begin(), more.end());
      return into;
    });
    expect_same_bits("correct", n, [&](const CodeKernels& k) {
      Numbers both = base, v2 = v;
      const Numbers g = normal_numbers(n, 8);
      for (const bool nesterov : {false, true})
        k.correct({0.7f, 1e-3f, 0.9f, nesterov}, g.data(), v.data(), both.data(), v2.data(), n);
      k.add_scaled(-0.3f, g.data(), both.data(), n);
      both.insert(both.end(), v2.begin(), v2.end());
      return both;
    });
  }
}

TEST(CodeKernels, EverySetPacksToTheSameBitsAndUnpacksThem) {
  Rng random(1, 0, purpose_of("codes"));
  for (int bits = 1; bits <= 8; ++bits) {
    Codes codes(kPacked);
    for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(1u << bits));
    Codes packed(kPacked / 8 * static_cast<std::size_t>(bits));
    expect_same_bits("pack", kPacked, [&](const CodeKernels& k) {
      k.pack[bits](codes.data(), packed.data());
      return packed;
    });
    for (const CodeKernels* set : sets()) {
      Codes again(kPacked, 0xff);
      set->unpack[bits](packed.data(), again.data());
      EXPECT_EQ(again, codes) << set->instruction_set << " " << bits;
    }
  }
}

TEST(CodeKernels, EverySetStreamsEveryByteAndNoOther) {
  for (const std::size_t n : odd_sizes())
    for (const std::size_t at : {0, 1, 4, 63}) {
      const auto from = any_numbers(n / 4 + 1, 10);
      for (const CodeKernels* set : sets()) {
        std::vector<char> to(n + 128, 'x'), expected = to;
        std::memcpy(expected.data() + at, from.data(), n);
        set->stream(reinterpret_cast<const char*>(from.data()), to.data() + at, n);
        set->end_stream();
        EXPECT_EQ(to, expected) << set->instruction_set << " " << n << " at " << at;
      }
    }
}

TEST(CodeKernels, EverySetFindsTheSameLargeNumbers) {
  for (const std::size_t n : odd_sizes())
    for (const float least : {0.f, 0.5f, 3.f}) {
      const Numbers v = normal_numbers(n, 9);
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 0; i < n; ++i)
        if (std::abs(v[i]) >= least) expected.push_back(i + 10);
      for (const CodeKernels* set : sets())
        for (const std::size_t room : {n, n / 2}) {
          std::vector<std::uint32_t> indices(room + kSlack);
          const std::size_t found = set->above(v.data(), n, std::bit_cast<std::uint32_t>(least), 10,
                                               indices.data(), room);
          EXPECT_EQ(found, expected.size());
          indices.resize(std::min(found, room));
          EXPECT_TRUE(std::equal(indices.begin(), indices.end(), expected.begin()))
              << set->instruction_set << " " << n;
        }
    }
}

// Against the compiler's own conversions, all NaN among them.
TEST(CodeKernels, Fp16IsIeees) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t h = 0; h < all.size(); ++h) all[h] = static_cast<std::uint16_t>(h);
  Rng random(2, 0, purpose_of("fp16"));
  Numbers numbers(1 << 18);
  for (float& x : numbers) {  // where rounding happens: of fp16's range and a little beyond
    const auto bits = static_cast<std::uint32_t>(random());
    x = std::bit_cast<float>((bits & 0x807fffff) | (100 + (bits >> 23) % 46) << 23);
  }
  for (const float x : {65504.f, 65519.f, 65520.f, 65536.f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f,
                        0.f, -0.f, INFINITY, -INFINITY, NAN})
    numbers.push_back(x);
  for (const CodeKernels* set : sets()) {
    Numbers wide(all.size());
    set->widen[0](all.data(), 1, wide.data(), all.size());
    for (std::size_t h = 0; h < all.size(); ++h) {
      const auto expected = static_cast<float>(std::bit_cast<_Float16>(all[h]));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[h]), std::bit_cast<std::uint32_t>(expected))
          << set->instruction_set << " " << h;
    }
    std::vector<std::uint16_t> narrow(numbers.size());
    set->narrow[0](numbers.data(), 1, narrow.data(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(narrow[i], std::bit_cast<std::uint16_t>(static_cast<_Float16>(numbers[i])))
          << set->instruction_set << " " << numbers[i];
  }
}

// A known bug of a published 1-bit decoder: the complement of a byte that holds 0 or 1 is 255 or
// 254, both of which count as true.
TEST(CodeKernels, OnlyTheLastBitOfACodeChoosesBetweenTwoValues) {
  const Codes codes = {0, 1, 254, 255, 2};
  for (const CodeKernels* set : sets()) {
    Numbers into(codes.size());
    set->either(codes.data(), -1, 1, into.data(), codes.size());
    EXPECT_EQ(into, (Numbers{-1, 1, -1, 1, -1})) << set->instruction_set;
  }
}

}  // namespace
}  // namespace lockstep
