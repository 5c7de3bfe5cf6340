#include "bench/contest.h"

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

namespace {

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void Measured::add(const Result& repeat) {
  append(times_us, repeat.times_us);
  append(stream_us, repeat.stream_us);
  repeat_medians_us.push_back(median(repeat.times_us));
  if (!repeat.memcpy_us.empty()) memcpy_medians_us.push_back(median(repeat.memcpy_us));
  if (repeat.wrong) wrong = wrong.value_or(0) + *repeat.wrong;
  bytes_sent_total = repeat.bytes_sent_total;
  bytes_sent_busiest = repeat.bytes_sent_busiest;
  chosen = repeat.chosen;
}

Spread speedup(const Measured& ours, const Measured& theirs) {
  return ratio(theirs.repeat_medians_us, ours.repeat_medians_us);
}

std::optional<Spread> times_of_memcpy(const Measured& m) {
  if (m.memcpy_medians_us.empty()) return std::nullopt;
  return ratio(m.repeat_medians_us, m.memcpy_medians_us);
}

std::vector<Measured> compare(std::span<const Contender> contenders, const Work& work, int repeats,
                              const Turn& turn) {
  std::vector<Measured> all;
  for (const Contender& contender : contenders) {
    Measured& one = all.emplace_back();
    one.by = contender;
    one.work = work;
    one.work.collective = contender.collective;
  }
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (Measured& one : all) {
      turn(one.by, repeat);
      one.add(one.by.engine->measure(one.work));
    }
  }
  return all;
}

}  // namespace lockstep::bench
