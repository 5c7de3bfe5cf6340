// TernGrad: each number as -1, 0 or 1 times the largest magnitude, by a draw that is right on
// average. First, numbers beyond `clip` standard deviations are cut off, which makes the largest
// smaller and with it the variance: unbiased for what is left. It has no error feedback: the
// variance may be many times |v|^2, so what is kept would grow. (Wen et al., NeurIPS 2017: layer by
// layer, and the mean of what workers sent is not made ternary again.)
#include <algorithm>
#include <cmath>

#include "compression/levels.h"
#include "compression/registry.h"
#include "core/error.h"

namespace lockstep {

Compression terngrad_compression(const Options& options) {
  LevelsRule rule;
  rule.levels = 1;
  rule.bucket = static_cast<std::size_t>(between(options, "bucket", 0, 1 << 24));
  rule.stochastic = true;
  rule.clip = options.number("clip");
  if (!(rule.clip >= 0))
    throw UsageError(fmt::format("clip of 'terngrad' is {}: at least 0", rule.clip));
  Compression c;
  c.averaging = Averaging::gathered;
  c.by_tensor = true;
  c.biased = rule.clip > 0;
  c.draws = true;
  // The variance is the sum of |v| (s - |v|), where s <= |v|_2 and |v|_1 <= sqrt(d) |v|_2. What is
  // cut off can be nearly all of |v|.
  c.squared_error = [rule](std::size_t count) {
    const std::size_t d = rule.bucket ? std::min(count, rule.bucket) : count;
    return std::sqrt(static_cast<double>(d)) - 1 + (rule.clip > 0 ? 1 : 0);
  };
  // Each by no more than the largest.
  c.most_squared_error = [rule](std::size_t count) {
    return static_cast<double>(rule.bucket ? std::min(count, rule.bucket) : count);
  };
  c.most_error_of_each = kLeastScale;
  c.make = [rule] { return make_levels(rule); };
  return c;
}

}  // namespace lockstep
