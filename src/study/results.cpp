#include "study/results.h"

#include <fmt/format.h>

#include <algorithm>

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
constexpr const char* kFacts[] = {"collective",      "data",          "metric",      "steps",
                                  "effective_batch", "split_seconds", "model_sha256"};
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

std::string text_of(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string at(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? text_of(object[key]) : "";
}

void add(std::vector<std::string>& fields, std::span<const char* const> more) {
  fields.insert(fields.end(), more.begin(), more.end());
}

std::vector<std::string> run_fields(const Study& study, const Run& run) {
  std::string trial = "no";
  for (const Trial& t : study.trials)
    if (t.run == run.id) trial = "yes";
  std::string variants;  // a run may serve several
  for (const Variant& v : study.variants)
    if (std::ranges::find(v.runs, run.id) != v.runs.end())
      variants += (variants.empty() ? "" : " | ") + v.label;
  return {run.id,
          variants.empty() ? run.variant : variants,
          trial,
          std::to_string(run.seed),
          run.status,
          run.reason,
          run.seconds > 0 ? fmt::format("{:.3f}", run.seconds) : ""};
}
constexpr const char* kRun[] = {"run",    "variant", "tuning_trial", "seed",
                                "status", "reason",  "wall_seconds"};
// Of a training; of a benchmark only the first.
constexpr const char* kSource[] = {"commit", "curve_file"};

// The points of a curve, as run_record.h names them.
constexpr const char* kPoint[] = {"epoch", "step", "seconds",    "bytes",
                                  "score", "loss", "train_loss", "consensus_distance"};

std::string bench_csv(const Study& study, const Records& records) {
  std::vector<std::string> head;
  add(head, kRun);
  head.emplace_back("commit");
  add(head, kBench);
  head.emplace_back("command");
  std::string csv = csv_line(head);
  for (const Run& run : study.runs) {
    const RunRecord& record = records.at(run.id);
    Json rows =
        record.result.is_object() ? record.result.value("rows", Json::array()) : Json::array();
    std::erase_if(rows.get_ref<Json::array_t&>(),
                  [](const Json& row) { return at(row, "op") == "ratio"; });
    if (rows.empty()) rows.push_back(Json::object());  // a run that failed has its row as well
    for (const Json& row : rows) {
      std::vector<std::string> fields = run_fields(study, run);
      fields.push_back(at(record.facts, "commit"));
      for (const char* key : kBench) fields.push_back(at(row, key));
      fields.push_back(command_line(study, run));
      csv += csv_line(fields);
    }
  }
  return csv;
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
  std::vector<std::string> head{"run", "variant", "seed"};
  add(head, kPoint);
  std::string csv = csv_line(head);
  for (const Run& run : study.runs)
    for (const Json& point : records.at(run.id).curve) {
      std::vector<std::string> fields{run.id, run.variant, std::to_string(run.seed)};
      for (const char* key : kPoint) fields.push_back(at(point, key));
      csv += csv_line(fields);
    }
  return csv;
}

std::string results_csv(const Study& study, const Records& records, const std::string& curve_file) {
  if (study.command != "train") return bench_csv(study, records);
  std::vector<std::string> head;
  add(head, kRun);
  add(head, kSource);
  add(head, kSettings);
  add(head, kFacts);
  head.insert(head.end(), {"simulated", "oversubscribed"});
  for (const Figure& f : figures()) head.emplace_back(f.key);
  head.emplace_back("command");
  std::string csv = csv_line(head);
  for (const Run& run : study.runs) {
    const RunRecord& record = records.at(run.id);
    std::vector<std::string> fields = run_fields(study, run);
    fields.push_back(at(record.facts, "commit"));
    fields.push_back(record.curve.empty() ? "" : curve_file);
    for (const char* key : kSettings) fields.push_back(at(record.config, key));
    for (const char* key : kFacts) fields.push_back(at(record.result, key));
    for (const char* key : {"simulated", "oversubscribed"})
      fields.push_back(at(record.result, key));
    for (const Figure& f : figures()) {
      const auto value = f.of(record);
      fields.push_back(value ? fmt::format("{}", *value) : "");
    }
    fields.push_back(command_line(study, run));
    csv += csv_line(fields);
  }
  return csv;
}

}  // namespace lockstep::study
