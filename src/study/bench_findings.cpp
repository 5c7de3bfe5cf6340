#include "study/bench_findings.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "core/words.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Json& row) {
  const bool ours = row["engine"] == "lockstep" && row["collective"].is_string();
  return ours ? row["collective"].get<std::string>() : row["engine"].get<std::string>();
}

double time_of(const Json& row) { return row["time_us"]["mean"]; }

bool tells_apart(const Json& fast, const Json& slow) {
  const Json &high = fast["time_us"]["high"], &low = slow["time_us"]["low"];
  return high.is_number() && low.is_number() && high.get<double>() < low.get<double>();
}

std::string fastest(const std::vector<const Json*>& rows) {
  const Json *first = rows[0], *second = nullptr;
  for (const Json* row : rows)
    if (time_of(*row) < time_of(*first)) first = row;
  for (const Json* row : rows)
    if (row != first && (!second || time_of(*row) < time_of(*second))) second = row;
  std::string text = fmt::format(
      "{} on {} ranks over {}: {} is fastest, {}", bytes_in_words((*first)["bytes"].get<double>()),
      (*first)["ranks"].get<int>(), (*first)["transport"].get<std::string>(), name_of(*first),
      time_in_words(time_of(*first) / 1e6));
  if (!second) return text + ".";
  return fmt::format("{}; next is {} with {} ({}).", text, name_of(*second),
                     time_in_words(time_of(*second) / 1e6),
                     tells_apart(*first, *second)            ? "intervals are apart"
                     : (*first)["time_us"]["high"].is_null() ? "too few runs to tell"
                                                             : "no difference shown");
}

std::string bytes_against_formula(const Json& rows) {
  int compared = 0;
  std::vector<std::string> off;
  for (const Json& row : rows) {
    if (row["formula_total"].is_null() || row["bytes_sent_total"].is_null()) continue;
    ++compared;
    if (row["formula_total"] != row["bytes_sent_total"] ||
        row["formula_busiest"] != row["bytes_sent_busiest"])
      off.push_back(fmt::format("{} of {} on {} ranks", name_of(row),
                                bytes_in_words(row["bytes"].get<double>()),
                                row["ranks"].get<int>()));
  }
  if (compared == 0) return "";
  if (off.empty())
    return fmt::format(
        "Bytes sent, in all and by the busiest rank, equal the formula in all {} "
        "measurements.",
        compared);
  return fmt::format("Bytes sent differ from the formula in {} of {} measurements: {}.", off.size(),
                     compared, fmt::join(off, "; "));
}

}  // namespace

std::vector<std::string> bench_findings(const Json& rows) {
  using Place = std::tuple<int, std::string, std::size_t>;
  std::map<Place, std::vector<const Json*>> places;
  std::uint64_t wrong = 0;
  for (const Json& row : rows) {
    places[{row["ranks"].get<int>(), row["transport"].get<std::string>(),
            row["bytes"].get<std::size_t>()}]
        .push_back(&row);
    wrong += row["wrong"].get<std::uint64_t>();
  }
  if (places.empty()) return {"No run is done yet: there is nothing to compare."};
  std::vector<std::string> out{bytes_against_formula(rows)};
  if (out[0].empty()) out.clear();
  out.push_back(wrong == 0 ? "Every result was right, element by element."
                           : fmt::format("{} elements were wrong.", wrong));
  constexpr std::size_t kMost = 12;  // the table has them all
  for (const auto& [place, there] : places)
    if (there.size() > 1 && out.size() < kMost) out.push_back(fastest(there));
  return out;
}

}  // namespace lockstep::study
