// How many learners a device can feed, found while training (Koliousis et al. 2019, section 4.4):
// one more as long as the samples a second grow by more than a twentieth; when they don't, one
// less, and that is it. A step's time is the median of an interval's: machines have hiccups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/strategy.h"

namespace lockstep {

class SmaTuner {
 public:
  static constexpr std::uint64_t kInterval = 16;  // steps between two looks
  static constexpr double kGain = 1.05;

  // From one learner a device up to `most`; without `searches` always that many.
  SmaTuner(const Crew&, int most, bool searches);

  // In that step, the one about to be taken or just taken.
  int learners(const Step& step) const { return step.number < next_ ? last_ : learners_; }
  // In the step just taken, or before the first.
  int learners_now() const { return last_; }
  // That step is done. Collective over the workers where a decision is due.
  void stepped(const Step&);

  std::string state() const;
  void restore(const std::string&);

 private:
  void measure(const Step&);
  int decide();

  const Crew crew_;
  const int most_;
  int learners_, last_;  // in the next step, and in the one before
  bool settled_;
  std::uint64_t next_ = 0;
  double best_ = 0;  // samples a second with one learner less
  // Rank 0's. Before the first step is over there is nothing to measure.
  std::optional<double> stepped_at_s_;
  std::vector<double> step_s_;  // since the last decision
  std::size_t samples_ = 0;     // of those steps
};

}  // namespace lockstep
