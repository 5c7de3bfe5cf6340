#include "study/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "train/run_folder.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

// Scores between the ends of epochs get a part of an epoch.
Json curve_from(const Json& lines) {
  double epochs = 0, steps = 0;
  for (const Json& line : lines)
    if (const Json ended = number_at(line, "steps");
        ended.is_number() && member(line, "ends_epoch") == true) {
      ++epochs;
      steps = ended.get<double>();
    }
  Json curve = Json::array();
  for (const Json& line : lines) {
    const Json step = number_at(line, "steps");
    if (step.is_null()) continue;
    const double at = steps > 0 ? step.get<double>() * epochs / steps : 0;
    curve.push_back({{"epoch", steps > 0 ? Json(std::round(at * 1e4) / 1e4) : Json()},
                     {"step", step},
                     {"seconds", number_at(line, "training_seconds")},
                     {"bytes", number_at(line, "bytes_sent")},
                     {"score", number_at(line, "accuracy")},
                     {"loss", number_at(line, "loss")},
                     {"train_loss", number_at(line, "train_loss")},
                     {"consensus_distance", number_at(line, "consensus_distance")},
                     {"dice", number_at(line, "dice")}});
  }
  return curve;
}

using Is = bool (Json::*)() const noexcept;

// Are these members of that kind, as far as they are there?
bool all(const Json& object, std::initializer_list<const char*> keys, Is kind) {
  return std::ranges::all_of(
      keys, [&](const char* key) { return !object.contains(key) || (object[key].*kind)(); });
}

// Not there, or a list of objects for each of which `fits` holds.
bool lists(const Json& object, const char* key, bool (*fits)(const Json& row)) {
  if (!object.contains(key)) return true;
  return object[key].is_array() && std::ranges::all_of(object[key], [&](const Json& row) {
           return row.is_object() && fits(row);
         });
}

bool is_setting(const Json& value) {
  return !value.is_object() &&
         (!value.is_array() ||
          std::ranges::all_of(value, [](const Json& one) { return one.is_string(); }));
}

// Is it what reports take for granted? Only what they read by type is looked at.
bool fits(const RunRecord& run) {
  for (const Json* part : {&run.config, &run.machine, &run.facts, &run.result})
    if (!part->is_object() && !part->is_null()) return false;
  const auto rank = [](const Json& row) { return all(row, {"role"}, &Json::is_string); };
  const auto measured = [](const Json& row) {
    return all(row, {"op", "engine", "transport", "type"}, &Json::is_string) &&
           all(row, {"ranks", "bytes", "time_us", "busbw_GBps"}, &Json::is_number);
  };
  return std::ranges::all_of(run.config, is_setting) &&
         all(run.machine, {"kernel"}, &Json::is_string) &&
         lists(run.result, "workers_detail", rank) && lists(run.result, "rows", measured);
}

// Three digits are more than a chart shows.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) >= 1000) return static_cast<std::int64_t>(std::llround(value));
  return std::round(value * 100) / 100;
}

// "network/exchange/bytes_sent", or null.
Json sampled(const Json& line, const std::string& path) {
  const Json::json_pointer pointer("/" + path);
  if (!line.contains(pointer)) return nullptr;
  const Json& value = line.at(pointer);
  return value.is_number() ? value : Json();
}

// The sum of totals of which some may be missing; null if all are.
Json total(const Json& line, std::initializer_list<const char*> paths) {
  double sum = 0;
  bool any = false;
  for (const char* path : paths)
    if (const Json value = sampled(line, path); !value.is_null())
      sum += value.get<double>(), any = true;
  return any ? Json(sum) : Json();
}

// Samples first..last (inclusive) of one point; the sample before tells where totals began.
class Point {
 public:
  Point(const Json& lines, std::size_t first, std::size_t last)
      : lines_(lines), first_(first), last_(last) {}

  Json mean(const char* path) const {
    double sum = 0, n = 0;
    for (std::size_t i = first_; i <= last_; ++i)
      if (const Json value = sampled(lines_[i], path); !value.is_null())
        sum += value.get<double>(), ++n;
    return n > 0 ? rounded(sum / n) : Json();
  }
  Json last(const char* path) const { return sampled(lines_[last_], path); }
  Json rate(std::initializer_list<const char*> paths) const {
    const Json now = total(lines_[last_], paths);
    if (now.is_null()) return nullptr;
    const Json before = first_ > 0 ? total(lines_[first_ - 1], paths) : Json(0.0);
    const double from = first_ > 0 ? sampled(lines_[first_ - 1], "t").get<double>() : 0;
    const double seconds = sampled(lines_[last_], "t").get<double>() - from;
    if (before.is_null() || seconds <= 0) return nullptr;
    return rounded((now.get<double>() - before.get<double>()) / seconds);
  }
  Json sum(const char* a, const char* b) const {
    const Json x = mean(a), y = mean(b);
    return x.is_null() || y.is_null() ? Json() : rounded(x.get<double>() + y.get<double>());
  }

 private:
  const Json& lines_;
  const std::size_t first_, last_;
};

// What is drawn of a rank, and what one point of it is.
struct Series {
  const char* name;
  Json (*at)(const Point&);
};
constexpr Series kSeries[] = {
    {"t", [](const Point& p) { return rounded(p.last("t").get<double>()); }},
    {"cpu_percent", [](const Point& p) { return p.sum("cpu_user_percent", "cpu_system_percent"); }},
    {"cpu_user_percent", [](const Point& p) { return p.mean("cpu_user_percent"); }},
    {"cpu_system_percent", [](const Point& p) { return p.mean("cpu_system_percent"); }},
    {"private_bytes", [](const Point& p) { return p.last("private_bytes"); }},
    {"shared_bytes", [](const Point& p) { return p.last("shared_bytes"); }},
    {"threads", [](const Point& p) { return p.last("threads"); }},
    {"network_sent_bytes_per_second",
     [](const Point& p) {
       return p.rate({"network/exchange/bytes_sent", "network/other/bytes_sent"});
     }},
    {"network_received_bytes_per_second",
     [](const Point& p) {
       return p.rate({"network/exchange/bytes_received", "network/other/bytes_received"});
     }},
    {"disk_read_bytes_per_second", [](const Point& p) { return p.rate({"disk_read_bytes"}); }},
    {"disk_written_bytes_per_second",
     [](const Point& p) { return p.rate({"disk_written_bytes"}); }},
    {"interface_sent_bytes_per_second",
     [](const Point& p) { return p.rate({"interface/sent_bytes"}); }},
    {"interface_received_bytes_per_second",
     [](const Point& p) { return p.rate({"interface/received_bytes"}); }},
};

}  // namespace

Json member(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

Json list_at(const Json& object, const char* key) {
  const Json value = member(object, key);
  return value.is_array() ? value : Json::array();
}

std::string text_at(const Json& object, const char* key) {
  const Json value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

Json number_at(const Json& object, const char* key) {
  const Json value = member(object, key);
  return value.is_number() && std::isfinite(value.get<double>()) ? value : Json();
}

std::string text_of(const std::string& path) try {
  return read_whole(path);
} catch (const UsageError&) {
  return "";
}

Json json_lines(const std::string& text) {
  Json all = Json::array();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Json parsed = json_in(line);
    if (parsed.is_object()) all.push_back(std::move(parsed));
  }
  return all;
}

RunRecord read_run(const std::string& folder) {
  RunRecord record;
  const std::string path = folder + "/run.json";
  if (!std::filesystem::exists(path)) return record;
  const Json run = json_in(text_of(path));
  record.status = text_at(run, "status");
  record.reason = text_at(run, "reason");
  if (record.status == "running" && text_at(run, "kind") == "lockstep run")
    if (const std::string gone = owner_is_gone(folder); !gone.empty()) {
      record.status = "failed";
      record.reason = gone;
    }
  record.config = member(run, "config");
  record.machine = member(run, "machine");
  record.facts = member(run, "facts");
  record.result = member(run, "result");
  if (!run.is_object() || !fits(record)) {
    record = {};
    record.status = "failed";
    record.reason = path + " is damaged";
    record.damaged = true;
    return record;
  }
  record.curve = curve_from(json_lines(text_of(folder + "/metrics.jsonl")));
  return record;
}

void write_run(const std::string& folder, const std::string& status, const std::string& reason,
               const Json& config, const Json& rows, const std::string& commit) {
  const Json run = {{"kind", "lockstep study's run"},
                    {"schema_version", 1},
                    {"status", status},
                    {"reason", reason},
                    {"config", config},
                    {"facts", {{"commit", commit}}},
                    {"result", rows.empty() ? Json() : Json{{"rows", rows}}}};
  write_whole(folder + "/run.json", json_text(run, 1) + "\n");
}

Json thinned(const Json& all, std::size_t points) {
  Json lines = Json::array();
  for (const Json& line : all)
    if (sampled(line, "t").is_number()) lines.push_back(line);
  const std::size_t n = lines.size(), count = std::min(n, points);
  Json rank = Json::object();
  for (const auto& [name, at] : kSeries) {
    Json series = Json::array();
    for (std::size_t p = 0; p < count; ++p)
      series.push_back(at({lines, p * n / count, (p + 1) * n / count - 1}));
    // A series with nothing in it is left out.
    if (std::ranges::any_of(series, [](const Json& value) { return !value.is_null(); }))
      rank[name] = series;
  }
  return rank;
}

Json samples_of(const std::string& run_folder, std::size_t points) {
  Json ranks = Json::array();
  for (int r = 0; r < 4096; ++r) {
    const std::string path = fmt::format("{}/worker-{}.jsonl", run_folder, r);
    if (!std::filesystem::exists(path)) break;
    const Json lines = json_lines(text_of(path));
    if (lines.size() < 2) continue;
    Json rank = {{"rank", r}, {"role", "worker"}, {"host", ""}};
    for (const char* key : {"role", "host"})
      if (lines[0].contains(key)) rank[key] = lines[0][key];
    rank.update(thinned(lines, points));
    if (rank.contains("t")) ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace lockstep::study
