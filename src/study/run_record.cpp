#include "study/run_record.h"

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
                     {"consensus_distance", number_at(line, "consensus_distance")}});
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

}  // namespace lockstep::study
