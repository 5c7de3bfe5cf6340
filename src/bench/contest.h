// Measures several contenders side by side: each repeat gives every contender one turn, so that a
// noisy moment of the machine hits all of them alike and the ratio between two holds.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bench/engine.h"

namespace lockstep::bench {

// The p-th percentile (0..100) by linear interpolation between the two nearest of the sorted
// values. REQUIRES: at least one value.
double percentile(std::vector<double> values, double p);
double median(std::vector<double> values);

// The middle and the extremes.
struct Spread {
  double median = 0, min = 0, max = 0;
  bool operator==(const Spread&) const = default;
};
Spread spread(std::span<const double> values);

// How many times longer theirs took than ours, repeat by repeat, so that a busy moment which slowed
// both cancels out. REQUIRES: equally many repeats, none of ours zero.
Spread ratio(std::span<const double> theirs, std::span<const double> ours);

// Bytes per microsecond, as 10^9 bytes per second.
double gigabytes_per_second(double bytes, double time_us);
// What algorithm bandwidth is multiplied by to give the load on a link: 2(n-1)/n.
double all_reduce_bus_factor(int ranks);

struct Contender {
  Engine* engine;
  std::string collective;  // as Work::collective
  std::string transport;   // as reported
  bool ours = false;
};

// All repeats of one contender at one size.
struct Measured {
  Contender by;
  Work work;
  std::string chosen;
  std::vector<double> times_us, stream_us;  // all iterations of all repeats
  std::vector<double> repeat_medians_us;
  std::vector<double> memcpy_medians_us;  // by repeat, where there was a copy beside
  std::optional<std::uint64_t> wrong, bytes_sent_total, bytes_sent_busiest;

  void add(const Result& repeat);
};

// How `ours` compares with `theirs` at the same work: theirs/ours of each repeat's median.
Spread speedup(const Measured& ours, const Measured& theirs);

// How many times longer it took than a copy of the same bytes, repeat by repeat; none where there
// was no copy beside.
std::optional<Spread> times_of_memcpy(const Measured&);

// `work.collective` is each contender's own. `turn` is called before each measurement, to show
// progress.
using Turn = std::function<void(const Contender&, int repeat)>;
std::vector<Measured> compare(std::span<const Contender>, const Work& work, int repeats,
                              const Turn& turn);

}  // namespace lockstep::bench
