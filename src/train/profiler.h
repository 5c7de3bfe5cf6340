// How long the parts of a rank's steps took: medians over the latest steps.
#pragma once

#include <vector>

#include "train/compute_time.h"
#include "train/experiment.h"
#include "train/learner.h"

namespace lockstep {

class Profiler {
 public:
  void add(const Learner::Halves&, double optimiser_s);
  Profile profile(const TrainConfig&, const Experiment&) const;

 private:
  static constexpr std::size_t kLatest = 256;
  struct Timed {
    double forward_s, backward_s, apply_s;
  };
  std::vector<Timed> latest_;  // a ring
  std::size_t next_ = 0;
};

}  // namespace lockstep
