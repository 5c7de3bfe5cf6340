#include "study/report_data.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/json_text.h"
#include "measure/machine.h"
#include "study/findings.h"
#include "train/config.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// How a variant's score went, over its seeds.
// A point for each step that was scored: means over the runs that are done, the score with its
// interval, and how many runs it stands for.
Json mean_curve(const Variant& variant, const Records& records) {
  constexpr const char* kKeys[] = {"epoch", "seconds",           "bytes", "loss", "train_loss",
                                   "score", "consensus_distance"};
  std::map<std::uint64_t, std::map<std::string, std::vector<double>>> by_step;
  for (const std::string& id : variant.runs) {
    const RunRecord& record = records.at(id);
    if (!record.done()) continue;
    for (const Json& point : record.curve)
      for (const char* key : kKeys)
        if (point[key].is_number())
          by_step[point["step"].get<std::uint64_t>()][key].push_back(point[key].get<double>());
  }
  Json curve = Json::array();
  for (const auto& [step, values] : by_step) {
    Json point = {{"step", step}};
    for (const char* key : kKeys) {
      const auto found = values.find(key);
      point[key] = found == values.end() ? Json() : Json(estimate(found->second).mean);
    }
    if (const auto score = values.find("score"); score != values.end()) {
      const Estimate e = estimate(score->second);
      point["low"] = or_null(e.low);
      point["high"] = or_null(e.high);
      point["n"] = e.n;
    }
    curve.push_back(std::move(point));
  }
  return curve;
}

// As many points a curve as keep a report of many runs small.
std::size_t points_for(std::size_t runs) {
  return std::clamp<std::size_t>(120 * 24 / std::max<std::size_t>(1, runs), 30, 120);
}

Json machine_json(const Records& records) {
  Machine m = this_machine();
  Json machine = {{"host", m.host},
                  {"cpu", m.processor},
                  {"cores", m.cores},
                  {"memory_bytes", m.memory_bytes},
                  {"os", "Linux " + m.kernel}};
  for (const auto& [id, record] : records) {
    if (!record.machine.is_object()) continue;
    for (const auto& [key, from] : {std::pair{"host", "host"},
                                    {"cpu", "processor"},
                                    {"cores", "cores"},
                                    {"memory_bytes", "memory_bytes"}})
      if (record.machine.contains(from)) machine[key] = record.machine[from];
    if (record.machine.contains("kernel"))
      machine["os"] = "Linux " + record.machine["kernel"].get<std::string>();
    break;
  }
  return machine;
}

Json columns_json(const std::vector<Compared>& all, const Json& target) {
  Json columns = Json::array();
  for (const Figure& f : figures()) {
    if (std::ranges::none_of(all, [&](const Compared& c) { return c.values.contains(f.key); }))
      continue;
    std::string label(f.label);
    if (const auto at = label.find("target"); at != std::string::npos && target.is_number())
      label.replace(at, 6, fmt::format("{} %", 100 * target.get<double>()));
    columns.push_back({{"key", f.key},
                       {"label", label},
                       {"unit", f.unit},
                       {"better", f.better},
                       {"digits", f.digits}});
  }
  return columns;
}

Json figure_json(const Compared& c, std::string_view key) {
  Json json = to_json(*c.of(key));
  for (const auto& [seed, value] : c.values.at(key)) json["values"].push_back(value);
  return json;
}

Json variant_json(const Study& study, const Records& records, const Compared& c) {
  const Variant& v = *c.variant;
  Json figures_of = Json::object(), against = Json::object();
  for (const Figure& f : figures()) {
    if (!c.values.contains(f.key)) continue;
    figures_of[std::string(f.key)] = figure_json(c, f.key);
    if (const auto e = c.against_baseline(f.key))
      against[std::string(f.key)] = to_json(*e, f.as_ratio ? "ratio" : "difference");
  }
  return {{"label", v.label},
          {"group", v.group},
          {"name", v.name},
          {"flags", texts_of(v.own)},
          {"command", command_line(study, study.run(v.runs.at(0)))},
          {"simulated", c.simulated},
          {"oversubscribed", c.oversubscribed},
          {"tuned", v.tuned.empty() ? Json() : texts_of(v.tuned)},
          {"twin", or_null(v.twin)},
          {"predicted", study.predicted(v)},
          {"figures", figures_of},
          {"against_baseline", against},
          {"curve", mean_curve(v, records)},
          {"runs", v.runs}};
}

Json run_json(const Study& study, const Run& run, const RunRecord& record,
              const std::string& folder, const std::string& shown) {
  return {{"id", run.id},
          {"variant", run.variant},
          {"seed", run.seed},
          {"status", run.status},
          {"reason", or_null(run.reason)},
          {"command", command_line(study, run)},
          {"folder", shown},
          {"seconds", run.seconds > 0 ? Json(run.seconds) : Json()},
          // Measurements of bench have their own place.
          {"result", study.command == "train" ? record.result : Json()},
          {"curve", record.curve},
          {"workers", samples_of(folder, points_for(study.runs.size()))}};
}

Json tuning_json(const Study& study, const Records& records) {
  Json tuning = Json::array();
  for (const Trial& trial : study.trials) {
    std::vector<std::string> values;
    for (const auto& [name, given] : trial.value)
      values.push_back(trial.value.size() == 1 ? given.text() : name + " " + given.text());
    tuning.push_back({{"variant", trial.variant},
                      {"value", fmt::format("{}", fmt::join(values, ", "))},
                      {"score", or_null(figure("score").of(records.at(trial.run)))},
                      {"seed", study.run(trial.run).seed},
                      {"chosen", trial.chosen}});
  }
  return tuning;
}

Json target_of(const Records& records) {
  for (const auto& [id, record] : records)
    if (const Json target = number_at(record.config, "target_accuracy");
        target.is_number() && target.get<double>() > 0)
      return target;
  return nullptr;
}

// The first of that name: the one the page marks.
Json baseline_label(const Study& study) {
  const auto found = std::ranges::find(study.variants, study.baseline, &Variant::name);
  return found == study.variants.end() ? Json() : Json(found->label);
}

using FolderOf = std::function<std::string(const Run&)>;

Json report(const Study& study, const Records& records, const ReportContext& context,
            const FolderOf& folder, const FolderOf& shown) {
  const std::vector<Compared> all = compare(study, records);
  const Json target = target_of(records), bench = bench_rows(study, records);
  Json axes = Json::array(), variants = Json::array(), runs = Json::array();
  for (const ShownAxis& a : study.axes) axes.push_back({{"name", a.name}, {"values", a.values}});
  if (study.command == "train")
    for (const Compared& c : all) variants.push_back(variant_json(study, records, c));
  for (const Run& run : study.runs)
    runs.push_back(run_json(study, run, records.at(run.id), folder(run), shown(run)));
  return {{"schema_version", 1},
          {"kind", study.file.empty() ? "run" : "study"},
          {"title", study.title},
          {"question", study.question},
          {"about", study.about},
          {"size", study.quick ? "quick" : "full"},
          {"size_note", study.size_note},
          {"made_at", context.made_at},
          {"version", context.version},
          {"machine", machine_json(records)},
          {"command", study.file.empty() ? command_line(study, study.runs.at(0))
                                         : fmt::format("lockstep study {}{}", study.file,
                                                       study.quick ? " --quick" : "")},
          {"findings", findings(study, all, bench)},
          {"notes", notes(study, all, records)},
          {"baseline", baseline_label(study)},
          {"metric", study.command == "train" ? Json("accuracy") : Json()},
          {"target", target},
          {"axes", axes},
          {"columns", columns_json(all, target)},
          {"variants", variants},
          {"runs", runs},
          {"bench", bench},
          {"tuning", tuning_json(study, records)}};
}

// The flags that repeat a run, from its configuration.
Flags flags_of(const Json& config) {
  Flags flags;
  const Json standard = to_json(TrainConfig{});
  for (const Setting& setting : settings()) {
    const std::string key(setting.name), flag(setting.flag());
    const Json value = config.value(key, standard[key]);
    if (value == standard[key] || key == "cache" || key == "out" || key == "resume") continue;
    if (value.is_boolean())
      flags[flag] = {{}, value.get<bool>()};
    else if (value.is_array())
      flags[flag] = {value.get<std::vector<std::string>>()};
    else
      flags[flag] = {{value.is_string() ? value.get<std::string>() : json_text(value)}};
  }
  return over({}, flags);
}

}  // namespace

Json study_report(const Study& study, const std::string& folder, const ReportContext& context) {
  return report(
      study, read_runs(study, folder), context,
      [&](const Run& run) { return folder_of(folder, run); },
      [](const Run& run) { return folder_of(".", run).substr(2); });
}

Json run_report(const std::string& folder, const ReportContext& context) {
  const RunRecord record = read_run(folder);
  if (record.damaged) throw UsageError(record.reason + ", so there is nothing to report");
  if (!record.config.is_object())
    throw UsageError(
        fmt::format("{} holds neither study.json nor run.json: name a study's or a "
                    "run's folder",
                    folder));
  const auto text = [&](const char* key) { return text_at(record.config, key); };
  Study study;
  study.command = "train";
  study.title = fmt::format("{} on {}, {}", text("model"), text("data"), text("strategy"));
  study.question = "What did this run do, and what did it cost?";
  study.size_note = "one run";
  const std::string id = std::filesystem::absolute(folder).lexically_normal().filename().string();
  Run run;
  run.id = id;
  run.variant = text("strategy");
  const Json seed = number_at(record.config, "seed");
  run.seed = seed.is_null() ? 1 : seed.get<std::uint64_t>();
  run.flags = flags_of(record.config);
  run.status = record.status;
  run.reason = record.reason;
  study.variants.push_back(
      {run.variant, run.variant, {}, run.flags, run.flags, simulated(record), {}, "", {id}});
  study.runs.push_back(run);
  const auto here = [&](const Run&) { return folder; };
  return report(study, {{id, record}}, context, here, [](const Run&) { return "."; });
}

}  // namespace lockstep::study
