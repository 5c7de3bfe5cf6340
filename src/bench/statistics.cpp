#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace lockstep::bench {

double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double position = p / 100 * static_cast<double>(values.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

Spread spread(std::span<const double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median({values.begin(), values.end()}), *least, *most};
}

Spread ratio(std::span<const double> theirs, std::span<const double> ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
  return spread(ratios);
}

double gigabytes_per_second(double bytes, double time_us) {
  return time_us > 0 ? bytes / time_us / 1e3 : 0;
}

double all_reduce_bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace lockstep::bench
