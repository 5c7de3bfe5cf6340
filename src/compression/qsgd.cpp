// QSGD: each number as a level of its bucket's Euclidean norm, rounded at random to one of the two
// levels beside it. It is unbiased and needs no error feedback; it has none, since with few levels
// it is no contraction. (Alistarh et al., NeurIPS 2017, lemma 3.1.)
#include <algorithm>
#include <cmath>

#include "compression/levels.h"
#include "compression/registry.h"

namespace lockstep {

Compression qsgd_compression(const Options& options) {
  LevelsRule rule;
  rule.levels = static_cast<int>(between(options, "levels", 1, 127));
  rule.bucket = static_cast<std::size_t>(between(options, "bucket", 1, 1 << 24));
  rule.scale = LevelsRule::Scale::norm;
  rule.stochastic = true;
  Compression c;
  c.averaging = Averaging::two_shot;
  c.biased = false;
  c.draws = true;
  c.squared_error = [rule](std::size_t count) {
    const auto d = static_cast<double>(std::min(count, rule.bucket));
    return std::min(d / (rule.levels * rule.levels), std::sqrt(d) / rule.levels);
  };
  // Each by less than one level.
  c.most_squared_error = [rule](std::size_t count) {
    return static_cast<double>(std::min(count, rule.bucket)) / (rule.levels * rule.levels);
  };
  c.most_error_of_each = kLeastScale;
  c.make = [rule] { return make_levels(rule); };
  return c;
}

}  // namespace lockstep
