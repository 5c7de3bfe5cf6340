#include "study/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::study {
namespace {

// I_x(a, b), the regularised incomplete beta function, by Lentz's continued fraction. REQUIRES: x
// below (a + 1) / (a + b + 2), where the fraction converges quickly.
double incomplete_beta_fraction(double a, double b, double x) {
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x)) /
                       a;
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    for (const double term : {even, odd}) {
      d = 1 / std::max(1 + term * d, kTiny);
      c = std::max(1 + term / c, kTiny);
      value *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return front * value;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x < (a + 1) / (a + b + 2)) return incomplete_beta_fraction(a, b, x);
  return 1 - incomplete_beta_fraction(b, a, 1 - x);
}

template <class Combine>
std::vector<double> by_pairs(const BySeed& these, const BySeed& others, const Combine& combine) {
  std::vector<double> values;
  for (const auto& [seed, value] : these)
    if (const auto other = others.find(seed); other != others.end())
      values.push_back(combine(value, other->second));
  return values;
}

}  // namespace

double student_t_95(std::size_t degrees) {
  const auto v = static_cast<double>(degrees);
  double low = 1.9, high = 13;  // the answers for infinitely many and for one lie between
  for (int i = 0; i < 60; ++i) {
    const double t = (low + high) / 2;
    const double outside = incomplete_beta(v / 2, 0.5, v / (v + t * t));
    (outside > 0.05 ? low : high) = t;
  }
  return (low + high) / 2;
}

Estimate estimate(const std::vector<double>& values) {
  Estimate e;
  e.n = values.size();
  const auto n = static_cast<double>(e.n);
  e.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (e.n < kFewestRuns) return e;
  double squares = 0;
  for (const double value : values) squares += (value - e.mean) * (value - e.mean);
  const double half = student_t_95(e.n - 1) * std::sqrt(squares / (n - 1) / n);
  e.low = e.mean - half;
  e.high = e.mean + half;
  return e;
}

std::optional<Estimate> paired_difference(const BySeed& these, const BySeed& others) {
  const auto values = by_pairs(these, others, [](double a, double b) { return a - b; });
  if (values.empty()) return {};
  return estimate(values);
}

std::optional<Estimate> paired_ratio(const BySeed& these, const BySeed& others) {
  const auto values = by_pairs(these, others, [](double a, double b) { return std::log(a / b); });
  for (const double value : values)
    if (!std::isfinite(value)) return {};
  if (values.empty()) return {};
  Estimate e = estimate(values);
  e.mean = std::exp(e.mean);
  if (e.low) e.low = std::exp(*e.low), e.high = std::exp(*e.high);
  return e;
}

}  // namespace lockstep::study
