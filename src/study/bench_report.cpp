// Measurements of `bench allreduce`: a report's rows, and what they say.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/all_reduce.h"
#include "core/error.h"
#include "core/units.h"
#include "study/findings.h"
#include "train/cluster_spec.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

// Ranks fill hosts one by one, as the launcher and the simulation place them.
Place place_of(const Flags& flags, int ranks) {
  const auto text = [&](const char* flag, const char* otherwise) {
    const auto found = flags.find(flag);
    return found == flags.end() ? std::string(otherwise) : found->second.text();
  };
  const std::string cluster = text("cluster", "local"), kind = cluster_kind(cluster);
  int per_host = ranks;
  if (kind == "sim" || text("transport", "auto") == "simulated")
    per_host = network_from({kind == "sim" ? cluster : "sim", network_keys()}).ranks_per_host;
  if (kind == "netns") per_host = netns_from(cluster).ranks_per_host;
  Place place;
  for (int r = 0; r < ranks; ++r) place.host_of.push_back(r / per_host);
  return place;
}

// What the formula says that all ranks and the busiest one send, in bytes; null for engines and
// collectives that have none.
struct Sent {
  Json total, busiest;
};

Sent formula(const Json& row, const Flags& flags) {
  if (row.value("engine", "") != "lockstep" || row.value("op", "") != "allreduce") return {};
  try {
    const AllReduceRow& algorithm = all_reduce_named(row.at("chosen").get<std::string>());
    if (!algorithm.sent) return {};
    const std::size_t width = size_of(type_named(row.at("type").get<std::string>()));
    const int ranks = row.at("ranks");
    const Place place = place_of(flags, ranks);
    std::size_t total = 0, busiest = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::size_t bytes =
          width * algorithm.sent(row.at("bytes").get<std::size_t>() / width, place, r);
      total += bytes;
      busiest = std::max(busiest, bytes);
    }
    return {total, busiest};
  } catch (const std::exception&) {
    return {};  // an older program's row: shown as it is
  }
}

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

Json bench_rows(const Study& study, const Records& records) {
  struct Cell {
    Json row;
    std::vector<double> times, bandwidths;
    std::uint64_t wrong = 0;
    Flags flags;
    std::string command;
  };
  using Key = std::tuple<std::string, std::string, std::string, int, std::size_t>;
  std::vector<std::pair<Key, Cell>> cells;
  for (const Variant& variant : study.variants)
    for (const std::string& id : variant.runs) {
      const RunRecord& record = records.at(id);
      if (!record.done()) continue;
      for (const Json& row : list_at(record.result, "rows")) {
        if (row.value("op", "ratio") == "ratio") continue;
        const Json collective = row.value("collective", Json());
        const Key key{variant.label, row.value("engine", ""),
                      collective.is_string() ? collective.get<std::string>() : "",
                      row.value("ranks", 0), row.value("bytes", std::size_t{0})};
        auto cell = std::ranges::find(cells, key, &std::pair<Key, Cell>::first);
        if (cell == cells.end())
          cell = cells.insert(
              cells.end(),
              {key, {row, {}, {}, 0, variant.flags, command_line(study, study.run(id))}});
        cell->second.times.push_back(row.value("time_us", 0.0));
        cell->second.bandwidths.push_back(row.value("busbw_GBps", 0.0));
        if (row.contains("wrong") && row["wrong"].is_number())
          cell->second.wrong += row["wrong"].get<std::uint64_t>();
      }
    }
  Json all = Json::array();
  for (const auto& [key, cell] : cells) {
    const Json& row = cell.row;
    const Sent sent = formula(row, cell.flags);
    all.push_back({{"variant", std::get<0>(key)},
                   {"collective", row.value("collective", Json())},
                   {"chosen", row.value("chosen", Json())},
                   {"engine", row.value("engine", "")},
                   {"transport", row.value("transport", "")},
                   {"ranks", row.value("ranks", 0)},
                   {"bytes", row.value("bytes", std::size_t{0})},
                   {"type", row.value("type", "")},
                   {"time_us", to_json(estimate(cell.times))},
                   {"busbw_GBps", to_json(estimate(cell.bandwidths))},
                   {"bytes_sent_total", row.value("bytes_sent_total", Json())},
                   {"bytes_sent_busiest", row.value("bytes_sent_busiest", Json())},
                   {"formula_total", sent.total},
                   {"formula_busiest", sent.busiest},
                   {"wrong", cell.wrong},
                   {"command", cell.command}});
  }
  return all;
}

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
