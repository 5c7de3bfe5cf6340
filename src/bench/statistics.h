// What is said about repeated measurements. Pure.
#pragma once

#include <span>
#include <vector>

namespace lockstep::bench {

// The p-th percentile (0..100) by linear interpolation between the two nearest of the sorted
// values. REQUIRES: at least one value.
double percentile(std::vector<double> values, double p);
double median(std::vector<double> values);

// The middle and the extremes.
struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread(std::span<const double> values);

// How many times longer theirs took than ours, repeat by repeat, so that a busy moment which slowed
// both cancels out. REQUIRES: equally many repeats, none of ours zero.
Spread ratio(std::span<const double> theirs, std::span<const double> ours);

// Bytes per microsecond, as 10^9 bytes per second.
double gigabytes_per_second(double bytes, double time_us);
// What algorithm bandwidth is multiplied by to give the load on a link: 2(n-1)/n.
double all_reduce_bus_factor(int ranks);

}  // namespace lockstep::bench
