#include "core/names.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace lockstep {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> valid) {
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (std::string_view candidate : valid) {
    const std::size_t edits = edit_distance(name, candidate);
    // Half a word typed and then abandoned counts as one slip.
    const bool begun = name.size() >= 2 && candidate.starts_with(name);
    const std::size_t distance = begun ? 1 : edits;
    if (distance < fewest) fewest = distance, best = candidate;
  }
  return best;
}

void throw_unknown(std::string_view kind, std::string_view name,
                   std::span<const std::string_view> valid) {
  if (valid.empty()) throw UsageError(fmt::format("unknown {} '{}': there is none", kind, name));
  const std::string_view near = nearest(name, valid);
  const std::string hint = near.empty() ? "" : fmt::format("did you mean '{}'? ", near);
  throw UsageError(
      fmt::format("unknown {} '{}': {}valid: {}", kind, name, hint, fmt::join(valid, ", ")));
}

std::size_t index_named(std::string_view kind, std::string_view name,
                        std::span<const std::string_view> valid) {
  const auto found = std::find(valid.begin(), valid.end(), name);
  if (found == valid.end()) throw_unknown(kind, name, valid);
  return static_cast<std::size_t>(found - valid.begin());
}

}  // namespace lockstep
