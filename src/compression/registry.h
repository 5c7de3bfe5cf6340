// Compressors by name. A new one is a file of its own with NAME_compression(), and a line in
// compressors.def; the tests walk that table.
#pragma once

#include <string>
#include <string_view>

#include "compression/compression.h"

namespace lockstep {

struct CompressorParameter {
  std::string_view key, standard, description;  // `standard`: the value if none is given
};

struct CompressorRow {
  std::string_view name, alias;  // the alias may be empty
  std::string_view description;
  std::span<const CompressorParameter> parameters;
  // Options has a value for each parameter. UsageError if one can't be.
  Compression (*make)(const Options&);
};

std::span<const CompressorRow> compressors();

// All take a spec, NAME:key=value,…; unknown names and keys are UsageErrors that list the valid
// ones and the nearest.
const CompressorRow& compressor_named(std::string_view spec);  // ignores parameters
Compression compression(std::string_view spec);
// With the compressor's own name and every parameter's value: one spec for all ways to write it.
std::string full_compressor_spec(std::string_view spec);

// For the makers of Compressions.

// The value of `key`. UsageError if it is not above 0, or more than `most`.
double above_zero(const Options&, std::string_view key, double most);
// The value of `key`. UsageError if it is not a whole number from `least` to `most`.
std::int64_t between(const Options&, std::string_view key, std::int64_t least, std::int64_t most);
// Gives it a memory, see error_feedback.h.
void with_error_feedback(Compression&);

#define COMPRESSOR(function, ...) Compression function##_compression(const Options&);
#include "compression/compressors.def"
#undef COMPRESSOR

}  // namespace lockstep
