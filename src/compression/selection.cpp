#include "compression/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "compression/kernels.h"

namespace lockstep {
namespace {

// With fewer numbers a sample saves nothing.
constexpr std::size_t kFew = std::size_t{1} << 16;
constexpr std::size_t kSample = std::size_t{1} << 14;

std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffff; }

// What the k largest keys are: those above `least`, and the first `ties` that equal it.
struct Boundary {
  std::uint32_t least;
  std::size_t ties;
};

// By histograms of the highest bits, then of the next ones among the keys that share those with the
// k-th, and of the last. REQUIRES: 0 < k <= n; keys of 31 bits.
template <class Key>
Boundary boundary_of(std::size_t n, std::size_t k, Key key) {
  std::uint32_t found = 0;  // the bits of the k-th key that are known
  std::size_t left = k;     // keys still to take among those that share them
  int known = 31;           // the lowest of those bits
  for (const int bits : {11, 10, 10}) {
    std::array<std::uint32_t, 2048> histogram{};
    const int shift = known - bits;
    const std::uint32_t mask = (1u << bits) - 1;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t x = key(i);
      histogram[x >> shift & mask] += x >> known == found;
    }
    std::uint32_t digit = mask;
    for (; histogram[digit] < left; --digit) left -= histogram[digit];
    found = found << bits | digit;
    known = shift;
  }
  return {found, left};
}

// The indices of the k largest of n keys that are in the order of their indices.
template <class Key, class Index>
void take(std::size_t n, std::size_t k, Key key, Index index, std::uint32_t* into) {
  const Boundary boundary = boundary_of(n, k, key);
  std::size_t ties = boundary.ties, taken = 0;
  for (std::size_t i = 0; taken < k; ++i) {
    const std::uint32_t x = key(i);
    if (x < boundary.least || (x == boundary.least && ties == 0)) continue;
    ties -= x == boundary.least;
    into[taken++] = index(i);
  }
}

}  // namespace

std::uint32_t Selection::guess(std::span<const float> numbers, std::size_t k) {
  const double share = static_cast<double>(k) / static_cast<double>(numbers.size());
  const double due = share * kSample;
  // So far above what is due that the k largest are rarely not all above the guess.
  const auto rank = static_cast<std::size_t>(due + 5 * std::sqrt(due) + 8);
  if (numbers.size() < kFew || rank > kSample / 2) return 0;
  sample_.resize(kSample);
  for (std::size_t i = 0; i < kSample; ++i)
    sample_[i] = magnitude(numbers[i * numbers.size() / kSample]);
  const auto at = sample_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::ranges::nth_element(sample_, at, std::greater<>());
  return *at;
}

void Selection::top(std::span<const float> numbers, std::size_t k, std::uint32_t first,
                    std::uint32_t* indices) {
  if (k == 0) return;
  if (const std::uint32_t least = guess(numbers, k); least > 0) {
    // Twice what the guess should let through. Where it was wrong all numbers are candidates: the
    // same are taken.
    const std::size_t room = std::min(numbers.size(), 4 * k + numbers.size() / 64);
    candidates_.resize(room + kSlack);
    const std::size_t n =
        code_kernels().above(numbers.data(), numbers.size(), least, 0, candidates_.data(), room);
    if (n >= k && n <= room) {
      keys_.resize(n);
      for (std::size_t i = 0; i < n; ++i) keys_[i] = magnitude(numbers[candidates_[i]]);
      return take(
          n, k, [&](std::size_t i) { return keys_[i]; },
          [&](std::size_t i) { return first + candidates_[i]; }, indices);
    }
  }
  take(
      numbers.size(), k, [&](std::size_t i) { return magnitude(numbers[i]); },
      [&](std::size_t i) { return first + static_cast<std::uint32_t>(i); }, indices);
}

}  // namespace lockstep
