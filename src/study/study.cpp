#include "study/study.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/json_text.h"

namespace lockstep::study {

LOCKSTEP_JSON_FIELDS(Run, id, variant, seed, status, reason, seconds, flags, timed_by, turn)
LOCKSTEP_JSON_FIELDS(Variant, label, name, group, own, flags, simulated, tuned, twin, runs)
LOCKSTEP_JSON_FIELDS(Trial, variant, value, run, chosen)
LOCKSTEP_JSON_FIELDS(ShownAxis, name, values)
LOCKSTEP_JSON_FIELDS(Study, file, command, seeded, quick, title, question, about, size_note,
                     baseline, minutes, axes, variants, trials, runs)

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kKind = "lockstep study";

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
  std::istringstream command(study.command);
  std::vector<std::string> words{std::istream_iterator<std::string>(command), {}};
  for (std::string& word : words_of(run.flags)) words.push_back(std::move(word));
  return words;
}

std::string command_line(const Study& study, const Run& run) {
  return "lockstep " + shell_line(words_of(study, run));
}

Json to_json(const Study& study) {
  Json json = {{"kind", kKind}, {"schema_version", 1}, {"commit", study.commit}};
  to_json(json, study);
  for (std::size_t r = 0; r < study.runs.size(); ++r)
    json["runs"][r]["command"] = command_line(study, study.runs[r]);
  return json;
}

Study study_from(const nlohmann::json& j, const std::string& path) try {
  if (j.at("kind") != kKind) throw UsageError(path + " is not a study's");
  auto study = j.get<Study>();
  study.commit = j.value("commit", "");
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
