#include "measure/sample_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostPoints = 4096;
constexpr double kStart = 0.1;  // of a worker's steps

}  // namespace

void SampleCurve::add(std::uint64_t samples, double training_s) {
  if (samples == 0) return;
  const Point& last = points_.back();
  const Point now{last.steps + 1, last.samples + static_cast<double>(samples), training_s};
  // The last point may be closer to the one before it than others are: then it moves on.
  if (points_.size() > 1 && last.steps - points_[points_.size() - 2].steps < apart_)
    points_.back() = now;
  else
    points_.push_back(now);
  if (points_.size() <= kMostPoints) return;
  std::vector<Point> fewer;
  for (std::size_t i = 0; i < points_.size(); i += 2) fewer.push_back(points_[i]);
  if (points_.size() % 2 == 0) fewer.push_back(points_.back());
  points_ = std::move(fewer);
  apart_ *= 2;
}

double SampleCurve::read(double Point::*x, double at, double Point::*y) const {
  const auto after =
      std::ranges::find_if(points_, [&](const Point& point) { return point.*x >= at; });
  if (after == points_.begin()) return (*after).*y;
  if (after == points_.end()) return points_.back().*y;
  const Point &high = *after, &low = *(after - 1);
  return low.*y + (high.*y - low.*y) * (at - low.*x) / (high.*x - low.*x);
}

double SampleCurve::seconds_at(double steps) const {
  return read(&Point::steps, steps, &Point::seconds);
}
double SampleCurve::samples_at(double seconds) const {
  return read(&Point::seconds, seconds, &Point::samples);
}
double SampleCurve::steps_at(double seconds) const {
  return read(&Point::seconds, seconds, &Point::steps);
}

std::vector<double> SampleCurve::numbers() const {
  std::vector<double> all{apart_};
  for (const Point& point : points_)
    all.insert(all.end(), {point.steps, point.samples, point.seconds});
  return all;
}

SampleCurve SampleCurve::from(std::span<const double> numbers) {
  if (numbers.size() < 4 || numbers.size() % 3 != 1 || !(numbers[0] >= 1))
    throw UsageError(
        fmt::format("{} numbers are no curve of samples: one and three for each point "
                    "are",
                    numbers.size()));
  SampleCurve curve;
  curve.apart_ = numbers[0];
  curve.points_.clear();
  for (std::size_t i = 1; i < numbers.size(); i += 3)
    curve.points_.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  return curve;
}

std::optional<SteadyRate> steady_rate(std::span<const SampleCurve> workers) {
  SteadyRate rate;
  rate.to_s = std::numeric_limits<double>::infinity();
  double count = 0;
  for (const SampleCurve& worker : workers) {
    if (worker.steps() == 0) continue;
    ++count;
    const double first = std::max(1.0, std::ceil(kStart * worker.steps()));
    rate.from_s = std::max(rate.from_s, worker.seconds_at(first));
    rate.to_s = std::min(rate.to_s, worker.last_s());
  }
  if (count == 0 || !(rate.to_s > rate.from_s)) return {};
  double samples = 0;
  for (const SampleCurve& worker : workers) {
    samples += worker.samples_at(rate.to_s) - worker.samples_at(rate.from_s);
    rate.steps += (worker.steps_at(rate.to_s) - worker.steps_at(rate.from_s)) / count;
  }
  rate.samples_per_second = samples / (rate.to_s - rate.from_s);
  return rate;
}

}  // namespace lockstep
