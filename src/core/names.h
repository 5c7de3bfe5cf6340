// Looking names up. An unknown one is answered with the valid ones and the nearest match: for every
// table and option.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Fewest letters to insert, delete, replace or swap with a neighbour to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The valid name with the fewest edits, or empty if none is near enough to be what was meant.
std::string_view nearest(std::string_view name, std::span<const std::string_view> valid);

// UsageError: "unknown strategy 'rng': did you mean 'ring'? valid: ring, tree".
[[noreturn]] void throw_unknown(std::string_view kind, std::string_view name,
                                std::span<const std::string_view> valid);

// Which of `valid` the name is. UsageError as above.
std::size_t index_named(std::string_view kind, std::string_view name,
                        std::span<const std::string_view> valid);

// The row of a table with this `name`, or with this `alias` where rows have one. UsageError as
// above.
template <class Rows>
const auto& row_named(std::string_view kind, std::string_view name, const Rows& rows) {
  std::vector<std::string_view> valid;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    valid.push_back(row.name);
    if constexpr (requires { row.alias; }) {
      if (row.alias.empty()) continue;
      if (row.alias == name) return row;
      valid.push_back(row.alias);
    }
  }
  throw_unknown(kind, name, valid);
}

}  // namespace lockstep
