// Unknown names, answered with the valid ones and the nearest match: for every registry and option.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Fewest letters to insert, delete, replace or swap with a neighbour to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The valid name with the fewest edits, or empty if none is near enough to be what was meant.
std::string_view nearest(std::string_view name, std::span<const std::string_view> valid);

// UsageError: "unknown strategy 'rng': did you mean 'ring'? valid: ring, tree".
[[noreturn]] void throw_unknown(std::string_view kind, std::string_view name,
                                std::span<const std::string_view> valid);

}  // namespace lockstep
