#include "study/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json_text.h"
#include "study/figures.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

// Settings and facts that a reader may want to select by, as run.json has them.
constexpr const char* kSettings[] = {
    "workers",      "servers", "threads", "strategy",  "model",     "batch",
    "global_batch", "epochs",  "samples", "seconds",   "optimizer", "lr_schedule",
    "lr_scaling",   "split",   "cluster", "transport", "shape"};
constexpr const char* kFacts[] = {"collective",      "data",          "metric",       "steps",
                                  "effective_batch", "split_seconds", "model_sha256", "simulated",
                                  "oversubscribed"};
constexpr const char* kBench[] = {"op",
                                  "engine",
                                  "collective",
                                  "chosen",
                                  "transport",
                                  "ranks",
                                  "type",
                                  "bytes",
                                  "time_us",
                                  "p99_us",
                                  "algbw_GBps",
                                  "busbw_GBps",
                                  "bytes_sent_total",
                                  "bytes_sent_busiest",
                                  "wrong",
                                  "repeats"};

std::string at(const Json& object, const char* key) {
  const Json value = member(object, key);
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

using Field = std::pair<std::string, std::string>;  // its column's name, and what it says
using Row = std::vector<Field>;

void add(Row& row, std::span<const char* const> keys, const Json& object) {
  for (const char* key : keys) row.emplace_back(key, at(object, key));
}

// The names or the fields of a row.
std::string line_of(const Row& row, std::string Field::*part) {
  std::vector<std::string> fields;
  for (const Field& field : row) fields.push_back(field.*part);
  return csv_line(fields);
}

Row run_row(const Study& study, const Run& run, const RunRecord& record) {
  std::string trial = "no";
  for (const Trial& t : study.trials)
    if (t.run == run.id) trial = "yes";
  std::string variants;  // a run may serve several
  for (const Variant& v : study.variants)
    if (std::ranges::find(v.runs, run.id) != v.runs.end())
      variants += (variants.empty() ? "" : " | ") + v.label;
  return {{"run", run.id},
          {"variant", variants.empty() ? run.variant : variants},
          {"tuning_trial", trial},
          {"seed", std::to_string(run.seed)},
          {"status", run.status},
          {"reason", run.reason},
          {"wall_seconds", run.seconds > 0 ? fmt::format("{:.3f}", run.seconds) : ""},
          {"commit", at(record.facts, "commit")}};
}

Row training_row(const Study& study, const Run& run, const RunRecord& record,
                 const std::string& curve_file) {
  Row row = run_row(study, run, record);
  row.emplace_back("curve_file", record.curve.empty() ? "" : curve_file);
  add(row, kSettings, record.config);
  add(row, kFacts, record.result);
  for (const Figure& f : figures()) {
    const auto value = f.of(record);
    row.emplace_back(f.key, value ? fmt::format("{}", *value) : "");
  }
  row.emplace_back("command", command_line(study, run));
  return row;
}

Row bench_row(const Study& study, const Run& run, const RunRecord& record, const Json& measured) {
  Row row = run_row(study, run, record);
  add(row, kBench, measured);
  row.emplace_back("command", command_line(study, run));
  return row;
}

Row curve_row(const Run& run, const Json& point) {
  // As run_record.h names them.
  constexpr const char* kPoint[] = {"epoch", "step", "seconds",    "bytes",
                                    "score", "loss", "train_loss", "consensus_distance",
                                    "dice"};
  Row row{{"run", run.id}, {"variant", run.variant}, {"seed", std::to_string(run.seed)}};
  add(row, kPoint, point);
  return row;
}

}  // namespace

Records read_runs(const Study& study, const std::string& folder) {
  Records records;
  for (const Run& run : study.runs) records[run.id] = read_run(folder_of(folder, run));
  return records;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += fields[i];
      continue;
    }
    line += '"';
    for (const char c : fields[i]) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + "\r\n";
}

std::string curves_csv(const Study& study, const Records& records) {
  std::string csv = line_of(curve_row({}, {}), &Field::first);
  for (const Run& run : study.runs)
    for (const Json& point : records.at(run.id).curve)
      csv += line_of(curve_row(run, point), &Field::second);
  return csv;
}

std::string results_csv(const Study& study, const Records& records, const std::string& curve_file) {
  const bool trains = study.command == "train";
  std::string csv = line_of(trains ? training_row(study, {}, {}, "") : bench_row(study, {}, {}, {}),
                            &Field::first);
  for (const Run& run : study.runs) {
    const RunRecord& record = records.at(run.id);
    if (trains) {
      csv += line_of(training_row(study, run, record, curve_file), &Field::second);
      continue;
    }
    Json rows = list_at(record.result, "rows");
    std::erase_if(rows.get_ref<Json::array_t&>(),
                  [](const Json& row) { return at(row, "op") == "ratio"; });
    if (rows.empty()) rows.push_back(Json::object());  // a run that failed has its row as well
    for (const Json& measured : rows)
      csv += line_of(bench_row(study, run, record, measured), &Field::second);
  }
  return csv;
}

}  // namespace lockstep::study
