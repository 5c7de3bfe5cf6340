#include "study/run_record.h"

#include <cmath>
#include <sstream>

#include "core/error.h"
#include "train/files.h"
#include "train/run_folder.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

Json member(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

std::string text_at(const Json& object, const char* key) {
  const Json value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

// Scores between the ends of epochs get a part of an epoch.
Json curve_from(const Json& lines) {
  double epochs = 0, steps = 0;
  for (const Json& line : lines)
    if (member(line, "ends_epoch") == true) {
      ++epochs;
      steps = line.value("steps", 0.0);
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
                     {"consensus_distance", number_at(line, "consensus_distance")}});
  }
  return curve;
}

}  // namespace

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
    Json parsed = Json::parse(line, nullptr, false);
    if (parsed.is_object()) all.push_back(std::move(parsed));
  }
  return all;
}

RunRecord read_run(const std::string& folder) {
  RunRecord record;
  const Json run = Json::parse(text_of(folder + "/run.json"), nullptr, false);
  if (!run.is_object()) return record;
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
  write_whole(folder + "/run.json", run.dump(1) + "\n");
}

}  // namespace lockstep::study
