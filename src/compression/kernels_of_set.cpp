// Compiled once per instruction set, with LOCKSTEP_SET naming it (core/kernels.cmake). Loops that
// the compiler turns into the set's instructions, and the table of all kernels.
#include <bit>
#include <utility>

#include "compression/kernels.h"
#include "compression/of_set.h"

namespace lockstep::LOCKSTEP_SET {
namespace {

inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffff; }
inline float absolute(float x) { return std::bit_cast<float>(magnitude(x)); }

std::uint32_t largest(const float* v, std::size_t count) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(magnitude(v[i]));
    most = bits > most ? bits : most;
  }
  return static_cast<std::uint32_t>(most);
}

// The lanes are added up in pairs, and those again.
inline double total(double (&lanes)[kLanes]) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

// Adds term(i) to the lanes, for i from `begin`, which is divisible by kLanes, to `end`.
template <class Term>
inline void add_up(double (&lanes)[kLanes], std::size_t begin, std::size_t end, Term term) {
  std::size_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += term(i + l);
  for (std::size_t l = 0; i < end; ++i, ++l) lanes[l] += term(i);
}

// The sum of term(i) in fp64.
template <class Term>
inline double sum_of(std::size_t count, Term term) {
  double lanes[kLanes] = {};
  add_up(lanes, 0, count, term);
  return total(lanes);
}

double sum(const float* v, std::size_t count) {
  return sum_of(count, [v](std::size_t i) { return double(v[i]); });
}
double sum_of_magnitudes(const float* v, std::size_t count) {
  return sum_of(count, [v](std::size_t i) { return double(absolute(v[i])); });
}
double sum_of_squares(const float* v, std::size_t count) {
  return sum_of(count, [v](std::size_t i) { return double(v[i]) * double(v[i]); });
}
double dot(const float* a, const float* b, std::size_t count) {
  return sum_of(count, [a, b](std::size_t i) { return double(a[i]) * double(b[i]); });
}

// By masks, since GCC 12 leaves a choice between numbers that are widened to branches.
inline float where(bool chosen, float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & (chosen ? 0xffffffffu : 0u));
}

// A NaN is not below zero, so it is among the others and makes their sum one.
TwoSums two_sums(const float* v, std::size_t count) {
  TwoSums sums;
  sums.below = sum_of(count, [v](std::size_t i) { return double(where(v[i] < 0, v[i])); });
  sums.others = sum_of(count, [v](std::size_t i) { return double(where(!(v[i] < 0), v[i])); });
  std::uint32_t below = 0;
  for (std::size_t i = 0; i < count; ++i) below += v[i] < 0;
  sums.count_below = below;
  return sums;
}

// Adding this leaves a whole number in the last bits, rounded to nearest even, of anything between
// -2^22 and 2^22.
constexpr float kRounder = 0x1.8p23f;

void nearest(const float* __restrict v, float per_unit, int levels, std::uint8_t* __restrict codes,
             std::size_t count) {
  const int zero = std::bit_cast<int>(kRounder) - levels;
  const float most = static_cast<float>(levels);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = v[i] * per_unit;
    const float low = x > -most ? x : -most;
    const float within = low < most ? low : most;
    codes[i] = static_cast<std::uint8_t>(std::bit_cast<int>(within + kRounder) - zero);
  }
}

// 32 random bits for a key and an index: twice the mixing of C. Wellons's "lowbias32", with half of
// the key before each. 32 bits, since AVX2 multiplies no longer ones.
inline std::uint32_t stirred(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}
inline std::uint32_t random_bits(std::uint64_t key, std::uint32_t index) {
  const auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  return stirred(stirred(index ^ low) + high);
}

void drawn(const float* __restrict v, float per_unit, int levels, std::uint64_t key,
           std::uint32_t first, std::uint8_t* __restrict codes, std::size_t count) {
  const float most = static_cast<float>(levels);
  const auto n = static_cast<std::uint32_t>(count);
  for (std::uint32_t i = 0; i < n; ++i) {
    const float x = absolute(v[i] * per_unit), within = x < most ? x : most;
    const int down = static_cast<int>(within);
    const float draw = static_cast<float>(static_cast<int>(random_bits(key, first + i) >> 8));
    const bool up = draw * 0x1p-24f < within - static_cast<float>(down);  // both are exact
    const int level = down + up;
    codes[i] = static_cast<std::uint8_t>(levels + (v[i] < 0 ? -level : level));
  }
}

void signs(const float* __restrict v, std::uint8_t* __restrict codes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = !(v[i] < 0);  // as two_sums counts NaN
}

template <bool kAdd>
void units(const std::uint8_t* __restrict codes, int zero, float unit, float* __restrict into,
           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(codes[i] - zero) * unit;
    into[i] = kAdd ? into[i] + x : x;
  }
}

template <bool kAdd>
void either(const std::uint8_t* __restrict codes, float even, float odd, float* __restrict into,
            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = codes[i] & 1 ? odd : even;
    into[i] = kAdd ? into[i] + x : x;
  }
}

// Byte kByte of each packed column: the bits of the eight codes that fall into it. Templates make
// every shift a constant, without which loops over bytes do not become instructions of the set.
constexpr std::size_t kColumns = kPacked / 8;

template <int kBits, int kByte>
inline void pack_byte(const std::uint8_t* __restrict codes, std::uint8_t* __restrict packed) {
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::uint8_t byte = 0;
#pragma GCC unroll 8
    for (int row = 0; row < 8; ++row) {
      const int shift = row * kBits - 8 * kByte;
      if (shift > -kBits && shift < 8)
        byte |= static_cast<std::uint8_t>(shift < 0 ? codes[row * kColumns + c] >> -shift
                                                    : codes[row * kColumns + c] << shift);
    }
    packed[kByte * kColumns + c] = byte;
  }
}

template <int kBits, int kRow>
inline void unpack_row(const std::uint8_t* __restrict packed, std::uint8_t* __restrict codes) {
  constexpr int kFirst = kRow * kBits / 8, kShift = kRow * kBits % 8;
  constexpr std::uint8_t kMask = (1 << kBits) - 1;
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::uint8_t code = packed[kFirst * kColumns + c] >> kShift;
    if constexpr (kShift + kBits > 8)
      code |= static_cast<std::uint8_t>(packed[(kFirst + 1) * kColumns + c] << (8 - kShift));
    codes[kRow * kColumns + c] = code & kMask;
  }
}

template <int kBits>
void pack(const std::uint8_t* codes, std::uint8_t* packed) {
  [&]<int... kByte>(std::integer_sequence<int, kByte...>) {
    (pack_byte<kBits, kByte>(codes, packed), ...);
  }
  (std::make_integer_sequence<int, kBits>{});
}

template <int kBits>
void unpack(const std::uint8_t* packed, std::uint8_t* codes) {
  [&]<int... kRow>(std::integer_sequence<int, kRow...>) {
    (unpack_row<kBits, kRow>(packed, codes), ...);
  }
  (std::make_integer_sequence<int, 8>{});
}

double pack_signs(const float* __restrict v, std::uint8_t* __restrict packed, std::size_t count) {
  const auto magnitude_of = [v](std::size_t i) { return double(absolute(v[i])); };
  double lanes[kLanes] = {};
  std::size_t begin = 0;
  for (; begin + kPacked <= count; begin += kPacked, packed += kColumns) {
    std::uint8_t codes[kPacked];
    signs(v + begin, codes, kPacked);
    pack<1>(codes, packed);
    add_up(lanes, begin, begin + kPacked, magnitude_of);  // they are still in the cache
  }
  add_up(lanes, begin, count, magnitude_of);
  return total(lanes);
}

template <bool kNesterov>
void correct_with(const Correction& rule, const float* __restrict g, const float* __restrict w,
                  float* __restrict u, float* __restrict v, std::size_t count) {
  const Correction r = rule;
  for (std::size_t i = 0; i < count; ++i) {
    float d = r.scale * g[i];
    if (w) d += r.weight_decay * w[i];
    u[i] = kNesterov ? r.momentum * (u[i] + d) : r.momentum * u[i] + d;
    v[i] += kNesterov ? u[i] + d : u[i];
  }
}

void correct(const Correction& rule, const float* g, const float* w, float* u, float* v,
             std::size_t count) {
  const float* decays = rule.weight_decay != 0 ? w : nullptr;
  (rule.nesterov ? correct_with<true> : correct_with<false>)(rule, g, decays, u, v, count);
}

void add_scaled(float factor, const float* __restrict from, float* __restrict into,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += factor * from[i];
}

constexpr CodeKernels make() {
  CodeKernels k{};
#define LOCKSTEP_TEXT_(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_(x)
  k.instruction_set = LOCKSTEP_TEXT(LOCKSTEP_SET);
  k.narrow[0] = to_fp16;
  k.narrow[1] = to_bf16;
  k.widen[0] = from_fp16;
  k.widen[1] = from_bf16;
  k.add_widened[0] = add_fp16;
  k.add_widened[1] = add_bf16;
  k.largest = largest;
  k.sum = sum;
  k.sum_of_magnitudes = sum_of_magnitudes;
  k.sum_of_squares = sum_of_squares;
  k.two_sums = two_sums;
  k.nearest = nearest;
  k.drawn = drawn;
  k.signs = signs;
  k.pack_signs = pack_signs;
  k.units = units<false>;
  k.add_units = units<true>;
  k.either = either<false>;
  k.add_either = either<true>;
  const auto packs = [&]<int... kBits>(std::integer_sequence<int, 0, kBits...>) {
    ((k.pack[kBits] = pack<kBits>), ...);
    ((k.unpack[kBits] = unpack<kBits>), ...);
  };
  packs(std::make_integer_sequence<int, 9>{});
  k.stream = stream;
  k.end_stream = end_stream;
  k.above = above;
  k.correct = correct;
  k.dot = dot;
  k.add_scaled = add_scaled;
  return k;
}

}  // namespace

extern const CodeKernels code_kernels;
const CodeKernels code_kernels = make();

}  // namespace lockstep::LOCKSTEP_SET
