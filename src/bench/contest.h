// Measures several contenders side by side: each repeat gives every contender one turn, so that a
// noisy moment of the machine hits all of them alike and the ratio between two holds.
#pragma once

#include <functional>
#include <span>

#include "bench/engine.h"
#include "bench/statistics.h"

namespace lockstep::bench {

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
  std::optional<std::uint64_t> wrong, bytes_sent_total, bytes_sent_busiest;

  void add(const Result& repeat);
};

// How `ours` compares with `theirs` at the same work: theirs/ours of each repeat's median.
Spread speedup(const Measured& ours, const Measured& theirs);

// `work.collective` is each contender's own. `turn` is called before each measurement, to show
// progress.
using Turn = std::function<void(const Contender&, int repeat)>;
std::vector<Measured> compare(std::span<const Contender>, const Work& work, int repeats,
                              const Turn& turn);

}  // namespace lockstep::bench
