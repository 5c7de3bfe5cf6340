#include "train/profiler.h"

#include <algorithm>

#include "measure/machine.h"

namespace lockstep {

void Profiler::add(const Learner::Halves& halves, double optimiser_s) {
  const Timed timed{halves.forward_s, halves.backward_s, optimiser_s};
  if (latest_.size() < kLatest)
    latest_.push_back(timed);
  else
    latest_[next_++ % kLatest] = timed;
}

Profile Profiler::profile(const TrainConfig& config, const Experiment& experiment) const {
  const auto median = [&](double Timed::*part) {
    std::vector<double> times;
    for (const Timed& timed : latest_) times.push_back(timed.*part);
    if (times.empty()) return 0.0;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    return *middle;
  };
  return {config.model,
          experiment.full_batch(0),
          experiment.threads(this_machine().cores),
          median(&Timed::forward_s),
          median(&Timed::backward_s),
          median(&Timed::apply_s)};
}

}  // namespace lockstep
