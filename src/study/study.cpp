#include "study/study.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep::study {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kKind = "lockstep study";

Json run_json(const Study& study, const Run& run) {
  return {{"id", run.id},
          {"variant", run.variant},
          {"seed", run.seed},
          {"status", run.status},
          {"reason", run.reason},
          {"seconds", run.seconds},
          {"command", command_line(study, run)},
          {"flags", to_json(run.flags)},
          {"timed_by", run.timed_by},
          {"turn", run.turn}};
}

Run run_from(const nlohmann::json& j) {
  return {j.at("id"),       j.at("variant"), j.at("seed"),   flags_from(j.at("flags")),
          j.at("timed_by"), j.at("turn"),    j.at("status"), j.at("reason"),
          j.at("seconds")};
}

Json variant_json(const Variant& v) {
  return {{"label", v.label},
          {"name", v.name},
          {"group", v.group},
          {"own", to_json(v.own)},
          {"flags", to_json(v.flags)},
          {"simulated", v.simulated},
          {"tuned", to_json(v.tuned)},
          {"twin", v.twin},
          {"runs", v.runs}};
}

Variant variant_from(const nlohmann::json& j) {
  return {j.at("label"),
          j.at("name"),
          j.at("group").get<std::map<std::string, std::string>>(),
          flags_from(j.at("own")),
          flags_from(j.at("flags")),
          j.at("simulated"),
          flags_from(j.at("tuned")),
          j.at("twin"),
          j.at("runs").get<std::vector<std::string>>()};
}

// Every run that is named is there.
void check_ids(const Study& study, const std::string& path) {
  const auto check = [&](const std::string& id) {
    if (std::ranges::find(study.runs, id, &Run::id) == study.runs.end())
      throw UsageError(fmt::format("{} is damaged: it names a run {} and has none", path, id));
  };
  for (const Variant& variant : study.variants) {
    if (variant.runs.empty())
      throw UsageError(fmt::format("{} is damaged: {} has no run", path, variant.label));
    std::ranges::for_each(variant.runs, check);
  }
  for (const Trial& trial : study.trials) check(trial.run);
}

}  // namespace

const Run& Study::run(const std::string& id) const {
  const auto found = std::ranges::find(runs, id, &Run::id);
  if (found == runs.end()) throw InternalError(fmt::format("the study has no run {}", id));
  return *found;
}

Run& Study::run(const std::string& id) {
  return const_cast<Run&>(static_cast<const Study&>(*this).run(id));
}

const Variant* Study::variant(const std::string& label) const {
  const auto found = std::ranges::find(variants, label, &Variant::label);
  return found == variants.end() ? nullptr : &*found;
}

bool Study::predicted(const Variant& v) const {
  const Variant* twin = v.twin.empty() ? nullptr : variant(v.twin);
  if (!twin || twin->runs.empty()) return false;
  return std::ranges::find(v.runs, run(twin->runs[0]).timed_by) != v.runs.end();
}

std::size_t Study::count(const std::string& status) const {
  return static_cast<std::size_t>(std::ranges::count(runs, status, &Run::status));
}

std::vector<std::string> words_of(const Study& study, const Run& run) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < study.command.size();) {
    const std::size_t space = std::min(study.command.find(' ', at), study.command.size());
    words.push_back(study.command.substr(at, space - at));
    at = space + 1;
  }
  for (std::string& word : words_of(run.flags)) words.push_back(std::move(word));
  return words;
}

std::string command_line(const Study& study, const Run& run) {
  return "lockstep " + shell_line(words_of(study, run));
}

Json to_json(const Study& study) {
  Json axes = Json::array(), variants = Json::array(), trials = Json::array(), runs = Json::array();
  for (const ShownAxis& a : study.axes) axes.push_back({{"name", a.name}, {"values", a.values}});
  for (const Variant& v : study.variants) variants.push_back(variant_json(v));
  for (const Trial& t : study.trials)
    trials.push_back({{"variant", t.variant},
                      {"value", to_json(t.value)},
                      {"run", t.run},
                      {"chosen", t.chosen}});
  for (const Run& run : study.runs) runs.push_back(run_json(study, run));
  return {{"kind", kKind},
          {"schema_version", 1},
          {"file", study.file},
          {"command", study.command},
          {"commit", study.commit},
          {"seeded", study.seeded},
          {"quick", study.quick},
          {"title", study.title},
          {"question", study.question},
          {"about", study.about},
          {"size_note", study.size_note},
          {"baseline", study.baseline},
          {"minutes", study.minutes},
          {"axes", axes},
          {"variants", variants},
          {"trials", trials},
          {"runs", runs}};
}

Study study_from(const nlohmann::json& j, const std::string& path) try {
  if (j.at("kind") != kKind) throw UsageError(path + " is not a study's");
  Study study;
  study.file = j.at("file");
  study.command = j.at("command");
  study.commit = j.value("commit", "");
  study.seeded = j.at("seeded");
  study.quick = j.at("quick");
  study.title = j.at("title");
  study.question = j.at("question");
  study.about = j.at("about");
  study.size_note = j.at("size_note");
  study.baseline = j.at("baseline");
  study.minutes = j.at("minutes");
  for (const auto& a : j.at("axes"))
    study.axes.push_back({a.at("name"), a.at("values").get<std::vector<std::string>>()});
  for (const auto& v : j.at("variants")) study.variants.push_back(variant_from(v));
  for (const auto& t : j.at("trials"))
    study.trials.push_back(
        {t.at("variant"), flags_from(t.at("value")), t.at("run"), t.at("chosen")});
  for (const auto& run : j.at("runs")) study.runs.push_back(run_from(run));
  check_ids(study, path);
  return study;
} catch (const nlohmann::json::exception& e) {
  throw UsageError(fmt::format("{} is damaged or of another version: {}", path, e.what()));
}

std::string study_file_in(const std::string& folder) { return folder + "/study.json"; }
std::string folder_of(const std::string& folder, const Run& run) {
  return folder + "/runs/" + run.id;
}

}  // namespace lockstep::study
