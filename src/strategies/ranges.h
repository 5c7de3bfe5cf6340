// Parameters that have a range, as several strategies know them. UsageError: which, of what, what
// it is, and the range.
#pragma once

#include "core/error.h"
#include "core/options.h"

namespace lockstep {

inline std::int64_t at_least(std::int64_t lowest, const Options& options, std::string_view key) {
  const std::int64_t value = options.integer(key);
  if (value >= lowest) return value;
  throw UsageError(
      fmt::format("{} of '{}' is {}: at least {}", key, options.name(), value, lowest));
}

inline double above_zero(const Options& options, std::string_view key) {
  const double value = options.number(key);
  if (value > 0) return value;
  throw UsageError(fmt::format("{} of '{}' is {}: above 0", key, options.name(), value));
}

// How much of what was is kept, as of a momentum.
inline double below_one(const Options& options, std::string_view key) {
  const double value = options.number(key);
  if (value >= 0 && value < 1) return value;
  throw UsageError(
      fmt::format("{} of '{}' is {}: at least 0 and below 1", key, options.name(), value));
}

}  // namespace lockstep
