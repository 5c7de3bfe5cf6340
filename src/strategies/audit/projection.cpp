#include "strategies/audit/projection.h"

#include <fmt/format.h>

#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "core/rng.h"

namespace lockstep {
namespace {

// Vectors of the compiler: it splits them into what the machine has. Sums are kept by lane, so they
// have the same bits on every machine.
constexpr int kLanes = 8;
typedef float Lanes __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t Bits __attribute__((vector_size(kLanes * 4)));
typedef double Sums __attribute__((vector_size(kLanes * 8)));

constexpr std::size_t kBlock = 64;  // elements whose signs are one random word
constexpr std::uint32_t kSign = 0x80000000;

// Eight bits as the sign bits of eight lanes.
constexpr auto kSigns = [] {
  std::array<std::array<std::uint32_t, kLanes>, 256> signs{};
  for (std::size_t bits = 0; bits < signs.size(); ++bits)
    for (int lane = 0; lane < kLanes; ++lane) signs[bits][lane] = bits >> lane & 1 ? kSign : 0;
  return signs;
}();

std::uint64_t word(std::uint64_t seed, std::size_t block, int projection) {
  return mixed(seed + block * kProjections + static_cast<std::size_t>(projection));
}

// What is projected: element i is data[i - first].
struct Numbers {
  const float* data;
  std::size_t first;
  const float* at(std::size_t i) const { return data + (i - first); }
};

// A few elements at either end of a part.
void project_some(Numbers numbers, std::size_t begin, std::size_t end, std::uint64_t seed,
                  Projection& sum) {
  for (std::size_t i = begin; i < end; ++i) {
    const float value = *numbers.at(i);
    for (int p = 0; p < kProjections; ++p)
      sum.along[p] += word(seed, i / kBlock, p) >> (i % kBlock) & 1 ? -value : value;
    sum.square += static_cast<double>(value) * value;
  }
}

void project_blocks(Numbers numbers, std::size_t first, std::size_t last, std::uint64_t seed,
                    Projection& sum) {
  Sums along[kProjections] = {}, square = {};
  for (std::size_t block = first; block < last; ++block) {
    std::uint64_t words[kProjections];
    for (int p = 0; p < kProjections; ++p) words[p] = word(seed, block, p);
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      Bits bits;
      std::memcpy(&bits, numbers.at(block * kBlock + i), sizeof bits);
      for (int p = 0; p < kProjections; ++p) {
        Bits signs;
        std::memcpy(&signs, kSigns[words[p] >> i & 0xff].data(), sizeof signs);
        along[p] += __builtin_convertvector(reinterpret_cast<Lanes>(bits ^ signs), Sums);
      }
      const Sums wide = __builtin_convertvector(reinterpret_cast<Lanes>(bits), Sums);
      square += wide * wide;
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int p = 0; p < kProjections; ++p) sum.along[p] += along[p][lane];
    sum.square += square[lane];
  }
}

}  // namespace

Projection project(Values values, Slice part, std::uint64_t seed, std::size_t begins_at) {
  const Numbers data{reinterpret_cast<const float*>(values.bytes().data), begins_at};
  const std::size_t first = (part.begin + kBlock - 1) / kBlock, last = part.end() / kBlock;
  const std::uint64_t key = mixed(seed);
  Projection sum;
  if (first >= last) {
    project_some(data, part.begin, part.end(), key, sum);
    return sum;
  }
  project_some(data, part.begin, first * kBlock, key, sum);
  project_blocks(data, first, last, key, sum);
  project_some(data, last * kBlock, part.end(), key, sum);
  return sum;
}

Projection sum_of(std::span<const Term> mix) {
  Projection sum;
  double norm = 0;
  for (const Term& term : mix) {
    for (int i = 0; i < kProjections; ++i) sum.along[i] += term.factor * term.of.along[i];
    norm += std::abs(term.factor) * std::sqrt(term.of.square);
  }
  sum.square = norm * norm;
  return sum;
}

std::optional<std::string> mismatch(const Projection& found, std::span<const Term> mix,
                                    std::size_t count, double loses, double and_norm) {
  constexpr double kDeviations = 8, kRounding = 0x1p-24;  // of one fp32 operation
  Projection expected;
  double size = 0;
  int terms = 0;
  for (const Term& term : mix) {
    if (term.factor == 0) continue;
    for (int i = 0; i < kProjections; ++i) expected.along[i] += term.factor * term.of.along[i];
    size += std::abs(term.factor) * std::sqrt(term.of.square);
    ++terms;
  }
  // The second term: numbers too small for their own rounding to be relative.
  const double tolerance = kDeviations * (((terms + 2) * kRounding + loses) * size + and_norm) +
                           static_cast<double>(count) * FLT_MIN;
  for (int i = 0; i < kProjections; ++i)
    if (!(std::abs(found.along[i] - expected.along[i]) <= tolerance))
      return fmt::format("projects to {:.9g} where the strategy promises {:.9g} (tolerance {:.2g})",
                         found.along[i], expected.along[i], tolerance);
  return {};
}

}  // namespace lockstep
