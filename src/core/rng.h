// Random streams: the same (seed, rank, purpose) gives the same numbers, and different ones don't
// meet.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace lockstep {

// SplitMix64's finaliser: neighbouring inputs give unrelated outputs. Random numbers by index,
// without a stream.
std::uint64_t mixed(std::uint64_t);

class Rng {
 public:
  using result_type = std::uint64_t;

  Rng(std::uint64_t seed, int rank, std::uint64_t purpose);

  static constexpr result_type min() { return std::mt19937_64::min(); }
  static constexpr result_type max() { return std::mt19937_64::max(); }
  result_type operator()() { return engine_(); }

  double uniform();                      // [0, 1)
  std::uint64_t below(std::uint64_t n);  // 0..n-1, unbiased. REQUIRES n > 0
  double normal();                       // mean 0, deviation 1

  // For checkpoints: the whole state as text.
  std::string state() const;
  void restore(const std::string& state);  // UsageError if it isn't one

 private:
  std::mt19937_64 engine_;
};

// A purpose number from a name, the same on every machine (FNV-1a).
constexpr std::uint64_t purpose_of(std::string_view name) {
  std::uint64_t hash = 14695981039346656037ull;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace lockstep
