// What repeated runs allow to be said. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep::study {

// Fewer runs have no interval, and nothing is said about differences, nor that there are none: two
// normal draws would have to be 13 deviations apart, and two that agree by chance show nothing.
inline constexpr std::size_t kFewestRuns = 3;

// A mean and the 95 % interval that Student's t gives it, on the assumption that runs differ by
// chance alone, normally distributed. Of fewer than kFewestRuns, low and high are empty.
struct Estimate {
  double mean = 0;
  std::optional<double> low, high;
  std::size_t n = 0;

  bool excludes(double value) const { return low && (value < *low || value > *high); }
};

// REQUIRES: at least one value, all finite.
Estimate estimate(const std::vector<double>& values);

// Figures of runs by seed.
using BySeed = std::map<std::uint64_t, double>;
// Of this variant less the other, seed by seed, so that what a seed does to both cancels out. Empty
// if no seed has both.
std::optional<Estimate> paired_difference(const BySeed& these, const BySeed& others);
// How many times the other's these are: the mean of the logarithms' differences, turned back. Empty
// also where a figure is not positive.
std::optional<Estimate> paired_ratio(const BySeed& these, const BySeed& others);

// The t that |T| exceeds with probability 5 %, for so many degrees of freedom. REQUIRES: >= 1.
double student_t_95(std::size_t degrees);

}  // namespace lockstep::study
