// How many samples each worker had taken by when, and from the curves of all workers how fast a run
// went once it had started and before it ran out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

// One worker's. Time is the worker's training time: evaluations and checkpoints are no part of it.
// The samples of a step are taken evenly from the end of the worker's step before to its own end.
// Steps without samples are not counted. Exact for 4,095 steps; from then on neighbouring steps are
// taken as one, so that no run has more than 4,096 points.
class SampleCurve {
 public:
  // After each step, in order of time.
  void add(std::uint64_t samples, double training_s);

  double steps() const { return points_.back().steps; }
  double last_s() const { return points_.back().seconds; }
  // When so many steps were taken; in between by the straight line.
  double seconds_at(double steps) const;
  double samples_at(double seconds) const;
  double steps_at(double seconds) const;

  // For messages and checkpoints. UsageError: those are no such numbers.
  std::vector<double> numbers() const;
  static SampleCurve from(std::span<const double> numbers);

 private:
  struct Point {
    double steps = 0, samples = 0, seconds = 0;  // since the run's start
  };
  // The value of `y` where `x` is at `at`.
  double read(double Point::*x, double at, double Point::*y) const;

  std::vector<Point> points_{{}};
  double apart_ = 1;  // steps from one point to the next
};

struct SteadyRate {
  double from_s = 0, to_s = 0;  // the window, in training time
  double steps = 0;             // in it, of a worker in the mean
  double samples_per_second = 0;
};

// Over the window from when the last worker had finished the first tenth of its steps (at least
// one) until the first worker finished its last: the samples of all workers in it over its length.
// Workers without samples don't count. None: there is no such window.
std::optional<SteadyRate> steady_rate(std::span<const SampleCurve> workers);

}  // namespace lockstep
