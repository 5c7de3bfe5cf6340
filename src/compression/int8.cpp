// Whole multiples, -127 to 127, of a unit that is 1/127 of the largest magnitude in a bucket. Off
// by at most half a unit; at random, by less than one, and unbiased.
#include <algorithm>
#include <cmath>

#include "compression/levels.h"
#include "compression/registry.h"

namespace lockstep {

Compression int8_compression(const Options& options) {
  LevelsRule rule;
  rule.bucket = static_cast<std::size_t>(between(options, "bucket", 1, 1 << 24));
  rule.stochastic = options.flag("stochastic");
  Compression c;
  c.averaging = Averaging::two_shot;
  c.biased = !rule.stochastic;
  c.draws = rule.stochastic;
  // In units of a bucket's largest number, which is at most |v|: half of 1/127, squared, for each.
  // A fraction f that is rounded at random has the variance f (1 - f), which is no more.
  c.squared_error = [rule](std::size_t count) {
    return static_cast<double>(std::min(count, rule.bucket)) / (254.0 * 254.0);
  };
  // At random, each by less than a whole unit.
  c.most_squared_error = [rule, halves = rule.stochastic ? 1.0 : 2.0](std::size_t count) {
    return static_cast<double>(std::min(count, rule.bucket)) / std::pow(127 * halves, 2);
  };
  c.most_error_of_each = kLeastScale;
  c.make = [rule] { return make_levels(rule); };
  if (options.flag("feedback")) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
