#include "compression/registry.h"

#include <array>

#include "compression/error_feedback.h"
#include "core/error.h"
#include "core/names.h"

namespace lockstep {
namespace {

template <class... Rows>
constexpr std::array<CompressorParameter, sizeof...(Rows)> rows(Rows... row) {
  return {row...};
}

#define PARAMETER(key, standard, description) \
  CompressorParameter { key, standard, description }
#define COMPRESSOR(function, name, alias, description, ...) \
  constexpr auto function##_parameters = rows(__VA_ARGS__);
#include "compression/compressors.def"
#undef COMPRESSOR
#undef PARAMETER

constexpr CompressorRow kRows[] = {
#define COMPRESSOR(function, name, alias, description, ...) \
  {name, alias, description, function##_parameters, function##_compression},
#include "compression/compressors.def"
#undef COMPRESSOR
};

Options options_of(std::string_view spec) {
  std::string defaults;
  for (const CompressorParameter& p : compressor_named(spec).parameters)
    defaults += fmt::format("{}{}={}", defaults.empty() ? "" : ",", p.key, p.standard);
  return Options::with_defaults(spec, defaults);
}

}  // namespace

std::span<const CompressorRow> compressors() { return kRows; }

const CompressorRow& compressor_named(std::string_view spec) {
  return row_named("compressor", Options::name_in(spec), compressors());
}

Compression compression(std::string_view spec) {
  return compressor_named(spec).make(options_of(spec));
}

std::string full_compressor_spec(std::string_view spec) {
  const CompressorRow& row = compressor_named(spec);
  const Options options = options_of(spec);
  std::string full(row.name);
  for (const CompressorParameter& p : row.parameters)
    full += fmt::format("{}{}={}", full.size() == row.name.size() ? ':' : ',', p.key,
                        options.text(p.key));
  return full;
}

double above_zero(const Options& options, std::string_view key, double most) {
  const double value = options.number(key);
  if (value > 0 && value <= most) return value;
  throw UsageError(
      fmt::format("{} of '{}' is {}: above 0 and at most {}", key, options.name(), value, most));
}

std::int64_t between(const Options& options, std::string_view key, std::int64_t least,
                     std::int64_t most) {
  const std::int64_t value = options.integer(key);
  if (value >= least && value <= most) return value;
  throw UsageError(
      fmt::format("{} of '{}' is {}: {} to {}", key, options.name(), value, least, most));
}

void with_error_feedback(Compression& compression) {
  compression.memories = 1;
  compression.remember = [](Compressor& code, std::span<const Values> memories,
                            const OptimiserTerms&) {
    return std::make_unique<ErrorFeedback>(code, memories[0]);
  };
}

}  // namespace lockstep
