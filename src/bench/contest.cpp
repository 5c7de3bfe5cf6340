#include "bench/contest.h"

namespace lockstep::bench {
namespace {

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void Measured::add(const Result& repeat) {
  append(times_us, repeat.times_us);
  append(stream_us, repeat.stream_us);
  repeat_medians_us.push_back(median(repeat.times_us));
  if (repeat.wrong) wrong = wrong.value_or(0) + *repeat.wrong;
  bytes_sent_total = repeat.bytes_sent_total;
  bytes_sent_busiest = repeat.bytes_sent_busiest;
  chosen = repeat.chosen;
}

Spread speedup(const Measured& ours, const Measured& theirs) {
  return ratio(theirs.repeat_medians_us, ours.repeat_medians_us);
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
