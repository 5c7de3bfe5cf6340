#include "study/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "study/run_record.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

// Three digits are more than a chart shows.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) >= 1000) return static_cast<std::int64_t>(std::llround(value));
  return std::round(value * 100) / 100;
}

// "network/exchange/bytes_sent", or null.
Json at(const Json& line, const std::string& path) {
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
    if (const Json value = at(line, path); !value.is_null()) sum += value.get<double>(), any = true;
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
      if (const Json value = at(lines_[i], path); !value.is_null()) sum += value.get<double>(), ++n;
    return n > 0 ? rounded(sum / n) : Json();
  }
  Json last(const char* path) const { return at(lines_[last_], path); }
  Json rate(std::initializer_list<const char*> paths) const {
    const Json now = total(lines_[last_], paths);
    if (now.is_null()) return nullptr;
    const Json before = first_ > 0 ? total(lines_[first_ - 1], paths) : Json(0.0);
    const double from = first_ > 0 ? at(lines_[first_ - 1], "t").get<double>() : 0;
    const double seconds = at(lines_[last_], "t").get<double>() - from;
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

// A series with nothing in it is left out.
void add_series(Json& rank, const char* name, const Json& series) {
  if (std::ranges::any_of(series, [](const Json& value) { return !value.is_null(); }))
    rank[name] = series;
}

}  // namespace

Json thinned(const Json& all, std::size_t points) {
  Json lines = Json::array();
  for (const Json& line : all)
    if (at(line, "t").is_number()) lines.push_back(line);
  const std::size_t n = lines.size(), count = std::min(n, points);
  std::map<std::string, Json> series;
  constexpr const char* kNames[] = {"t",
                                    "cpu_percent",
                                    "cpu_user_percent",
                                    "cpu_system_percent",
                                    "private_bytes",
                                    "shared_bytes",
                                    "threads",
                                    "network_sent_bytes_per_second",
                                    "network_received_bytes_per_second",
                                    "disk_read_bytes_per_second",
                                    "disk_written_bytes_per_second",
                                    "interface_sent_bytes_per_second",
                                    "interface_received_bytes_per_second"};
  for (std::size_t p = 0; p < count; ++p) {
    const Point point(lines, p * n / count, (p + 1) * n / count - 1);
    const Json values[] = {
        rounded(point.last("t").get<double>()),
        point.sum("cpu_user_percent", "cpu_system_percent"),
        point.mean("cpu_user_percent"),
        point.mean("cpu_system_percent"),
        point.last("private_bytes"),
        point.last("shared_bytes"),
        point.last("threads"),
        point.rate({"network/exchange/bytes_sent", "network/other/bytes_sent"}),
        point.rate({"network/exchange/bytes_received", "network/other/bytes_received"}),
        point.rate({"disk_read_bytes"}),
        point.rate({"disk_written_bytes"}),
        point.rate({"interface/sent_bytes"}),
        point.rate({"interface/received_bytes"})};
    for (std::size_t i = 0; i < std::size(kNames); ++i) series[kNames[i]].push_back(values[i]);
  }
  Json rank = Json::object();
  for (const char* name : kNames) add_series(rank, name, series[name]);
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
