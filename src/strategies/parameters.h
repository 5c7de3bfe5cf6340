// Parameters as several strategies have them: with a range (UsageError: which, of what, what it is,
// and the range), and with the notice of a run that is too short for them.
#pragma once

#include "core/error.h"
#include "core/options.h"
#include "strategies/registry.h"

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

// For StrategyMaker::notice: of a run that is over before its workers have exchanged anything,
// which they do after so many steps for the first time, by that parameter.
inline std::function<std::optional<std::string>(const RunTerms&)> exchanges_first_after(
    const Options& options, std::string_view key, std::int64_t steps,
    std::string_view what_happens = "never exchange anything") {
  return [=, name = options.name()](const RunTerms& run) -> std::optional<std::string> {
    if (run.steps >= static_cast<std::uint64_t>(steps)) return {};
    if (run.workers == 1 && run.servers == 0) return {};
    return fmt::format(
        "{} exchanges every {} steps, and this run has {}: its workers {}; give a smaller {}, or "
        "more steps",
        name, steps, run.steps, what_happens, key);
  };
}

}  // namespace lockstep
