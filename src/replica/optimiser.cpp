#include "replica/optimiser.h"

#include <limits>

#include "core/error.h"
#include "core/names.h"

namespace lockstep {
namespace {

constexpr OptimiserRow kRows[] = {
#define OPTIMISER(function, name, defaults, description) \
  {name, defaults, description, make_##function},
#include "replica/optimisers.def"
#undef OPTIMISER
};

struct Limit {
  std::string_view key;
  double least, below;
};
constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr Limit kLimits[] = {{"lr", 0, kNone},           {"eps", 0, kNone},   {"eta", 0, kNone},
                             {"momentum", 0, 1},         {"dampening", 0, 1}, {"beta1", 0, 1},
                             {"weight_decay", 0, kNone}, {"beta2", 0, 1}};

}  // namespace

std::span<const OptimiserRow> optimisers() { return kRows; }

Options optimiser_options(std::string_view spec) {
  const OptimiserRow& row = row_named("optimizer", Options::name_in(spec), kRows);
  Options options = Options::with_defaults(spec, row.defaults);
  for (const auto& [key, least, below] : kLimits) {
    if (!options.takes(key)) continue;
    const double value = options.number(key);
    if (value >= least && value < below) continue;
    throw UsageError(fmt::format("{} of '{}' is {}: give at least {}{}", key, options.name(), value,
                                 least, below == kNone ? "" : fmt::format(" and below {}", below)));
  }
  if (options.takes("nesterov") && options.flag("nesterov") &&
      (options.number("momentum") == 0 || options.number("dampening") != 0))
    throw UsageError(
        fmt::format("nesterov of '{}' needs a momentum above 0 and no dampening", options.name()));
  return options;
}

std::unique_ptr<Optimiser> make_optimiser(const Options& options, const FlatModel& model) {
  return row_named("optimizer", options.name(), kRows).make(options, model);
}

torch::Tensor view_of(float* all, Slice part) {
  return torch::from_blob(all + part.begin, static_cast<std::int64_t>(part.count), torch::kFloat);
}

}  // namespace lockstep
