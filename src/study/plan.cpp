#include "study/plan.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/names.h"
#include "core/whole_file.h"

namespace lockstep::study {
namespace {

bool is_axis(const std::vector<Axis>& axes, const std::string& name) {
  return std::ranges::find(axes, name, &Axis::name) != axes.end();
}

// Are all names in a study's file names of something?
class Check {
 public:
  Check(const StudyFile& file, const std::vector<std::string>& flags)
      : file_(file), flags_(flags.begin(), flags.end()) {}

  // Of the command's flags; and which words stand in braces.
  void flags(const Flags& flags, const std::string& where) {
    for (const auto& [name, given] : flags) {
      flag(name, where);
      for (const std::string& word : placeholders_in({{name, given}})) {
        words_.insert(word);
        if (is_axis(file_.grid, word)) continue;
        if (!file_.twin.empty() && is_axis(file_.twin[0].grid, word)) continue;
        throw UsageError(fmt::format("{0}{{{1}}} stands for an axis, and [grid] has no {1}",
                                     file_.at(where + "." + name), word));
      }
    }
  }

  void axes(const std::vector<Axis>& axes, const std::string& where) const {
    for (const Axis& axis : axes) {
      if (!words_.contains(axis.name)) flag(axis.name, where);
      for (const NamedFlags& variant : file_.variants)
        if (variant.flags.contains(axis.name))
          throw UsageError(fmt::format("{}{} is an axis, and the variant '{}' sets it as well",
                                       file_.at(where + "." + axis.name), axis.name, variant.name));
    }
  }

  void flag(const std::string& name, const std::string& where) const try {
    index_named("flag of " + file_.command, name, flags_);
  } catch (const UsageError& e) {
    throw UsageError(file_.at(where + "." + name) + e.what());
  }

 private:
  const StudyFile& file_;
  const std::vector<std::string_view> flags_;
  std::set<std::string> words_;
};

// Every key is one of `flags`; an axis may also be a word that stands in braces in some value, and
// such a word is an axis. UsageError with file, line and the nearest match.
void check_names(const StudyFile& file, const std::vector<std::string>& flags) {
  Check check(file, flags);
  check.flags(file.base, "base");
  for (const NamedFlags& variant : file.variants)
    check.flags(variant.flags, "variant." + variant.name);
  if (!file.twin.empty()) check.flags(file.twin[0].flags, "twin");
  check.axes(file.grid, "grid");
  if (!file.twin.empty()) check.axes(file.twin[0].grid, "twin.grid");
  for (const Axis& axis : file.tune) check.flag(axis.name, "tune");
}

// To be raised when the same flags come to mean another run.
constexpr int kBehaviour = 1;

// What each axis is at one point of a grid.
using Point = Flags;

std::vector<Point> points_of(const std::vector<Axis>& axes) {
  std::vector<Point> points{{}};
  for (const Axis& axis : axes) {
    std::vector<Point> more;
    for (const Point& point : points)
      for (const Given& value : axis.values) {
        more.push_back(point);
        more.back()[axis.name] = value;
      }
    points = std::move(more);
  }
  return points;
}

// A word may be a further setting of a flag, comma included, or nothing.
std::string shown(const Given& value) {
  const std::string text = value.text();
  if (text.empty()) return "none";
  return text.starts_with(',') ? text.substr(1) : text;
}

constexpr const char *kMeasuredStep = "step=measured", *kAloneStep = "step=alone";
constexpr const char* kMeasuredJitter = "jitter=measured";

bool mentions(const Flags& flags, const char* words) {
  const auto cluster = flags.find("cluster");
  return cluster != flags.end() && cluster->second.text().find(words) != std::string::npos;
}

bool simulates(const Flags& flags) {
  const auto is = [&](const char* flag, std::string_view value) {
    const auto found = flags.find(flag);
    return found != flags.end() && found->second.text().starts_with(value);
  };
  return is("cluster", "sim") || is("transport", "simulated");
}

class Planner {
 public:
  Planner(const StudyFile& file, const Subject& subject, Study& study)
      : file_(file), subject_(subject), study_(study), names_(subject.flags()) {}

  void plan() {
    check_names(file_, names_);
    note_axes();
    std::vector<NamedFlags> variants = file_.variants;
    if (variants.empty()) variants.push_back({name_of_the_only(), {}});
    for (const NamedFlags& named : variants)
      for (const Point& point : points_of(file_.grid)) add_variant(named, point);
    add_trials();
    if (file_.twin.empty()) return;
    const std::size_t measured = study_.variants.size();
    for (std::size_t v = 0; v < measured; ++v) add_twins(v);
  }

  // A run of these flags, which may be there already. `turn`: when.
  std::string add_run(const Variant& variant, Flags flags, std::uint64_t seed, int turn,
                      const std::string& timed_by = "") {
    if (subject_.seeded()) flags["seed"] = {{std::to_string(seed)}};
    Flags some_pace = flags;  // it can be checked before anybody knows how long a step takes
    set_pace(some_pace, "step=100ms", "jitter=0.1");
    const std::string id = run_id(study_.command, settings(some_pace, variant), timed_by,
                                  subject_.seeded() ? 0 : seed);
    if (std::ranges::find(study_.runs, id, &Run::id) == study_.runs.end())
      study_.runs.push_back({id, variant.label, seed, std::move(flags), timed_by, turn});
    return id;
  }

  void sort() { std::ranges::stable_sort(study_.runs, {}, &Run::turn); }

 private:
  // Turn 0 is what the others need to know first.
  static int turn_of(std::size_t seed, bool twin) {
    return 1 + 2 * static_cast<int>(seed) + (twin ? 1 : 0);
  }

  void add_trials() {
    if (file_.tune.empty()) return;
    for (const Variant& variant : study_.variants)
      for (const Point& point : points_of(file_.tune)) {
        const std::string run = add_run(variant, over(variant.flags, point), file_.tune_seed, 0);
        study_.trials.push_back({variant.label, point, run});
      }
  }

  nlohmann::json settings(const Flags& flags, const Variant& variant) const try {
    return subject_.settings(flags);
  } catch (const UsageError& e) {
    throw UsageError(
        fmt::format("{}{}: {}", file_.at("variant." + variant.name), variant.label, e.what()));
  }

  std::string name_of_the_only() const {
    const auto strategy = file_.base.find("strategy");
    return strategy == file_.base.end() ? file_.command : strategy->second.text();
  }

  // Those that vary are shown, with all values that they take anywhere.
  void note_axes() {
    const auto note = [&](const std::vector<Axis>& axes) {
      for (const Axis& axis : axes) {
        auto found = std::ranges::find(study_.axes, axis.name, &ShownAxis::name);
        if (found == study_.axes.end())
          found = study_.axes.insert(study_.axes.end(), {axis.name, {}});
        for (const Given& value : axis.values)
          if (std::ranges::find(found->values, shown(value)) == found->values.end())
            found->values.push_back(shown(value));
      }
    };
    note(file_.grid);
    if (!file_.twin.empty()) note(file_.twin[0].grid);
    std::erase_if(study_.axes, [](const ShownAxis& a) { return a.values.size() < 2; });
  }

  // The flags at a point: axes that are flags, and words in braces.
  Flags at_point(Flags flags, const Point& point) const {
    std::map<std::string, std::string> texts;
    for (const auto& [name, value] : point) {
      texts[name] = value.text();
      if (std::ranges::find(names_, name) != names_.end()) flags[name] = value;
    }
    return over({}, filled(flags, texts));
  }

  Variant made(const std::string& name, const Flags& own, const Flags& flags, const Point& point,
               const std::string& suffix) const {
    Variant variant{name, name, {}, own, flags, simulates(flags), {}, "", {}};
    for (const ShownAxis& axis : study_.axes) {
      if (const auto value = point.find(axis.name); value != point.end())
        variant.group[axis.name] = shown(value->second);
      else if (const auto flag = flags.find(axis.name); flag != flags.end())
        variant.group[axis.name] = shown(flag->second);
      // Where an axis is the twins' alone, the measured ones are told apart without it.
      if (variant.group.contains(axis.name) && point.contains(axis.name))
        variant.label += fmt::format(", {} {}", axis.name, variant.group[axis.name]);
    }
    variant.label += suffix;
    return variant;
  }

  void add_variant(const NamedFlags& named, const Point& point) {
    const Flags flags = at_point(over(file_.base, named.flags), point);
    Variant variant = made(named.name, at_point(named.flags, point), flags, point, "");
    points_.push_back(point);
    for (std::size_t s = 0; s < file_.seeds.size(); ++s)
      variant.runs.push_back(add_run(variant, flags, file_.seeds[s], turn_of(s, false)));
    study_.variants.push_back(std::move(variant));
  }

  void add_twins(std::size_t measured) {
    const Twin& twin = file_.twin[0];
    for (const Point& own : points_of(twin.grid)) {
      Point point = points_[measured];
      for (const auto& [name, value] : own) point[name] = value;
      const Variant original = study_.variants[measured];
      const Flags flags = at_point(over(original.flags, twin.flags), point);
      Variant variant = made(original.name, original.own, flags, point, " (simulated)");
      const auto& seeds = twin.seeds.empty() ? file_.seeds : twin.seeds;
      for (std::size_t s = 0; s < seeds.size(); ++s)
        variant.runs.push_back(
            add_run(variant, flags, seeds[s], turn_of(s, true), timer_of(original, flags, s)));
      // The twin proper is the one that differs in nothing else.
      if (variant.group == original.group) study_.variants[measured].twin = variant.label;
      study_.variants.push_back(std::move(variant));
    }
  }

  // The run that shows how long a step takes.
  std::string timer_of(const Variant& original, const Flags& flags, std::size_t seed) {
    if (mentions(flags, kMeasuredStep))
      return original.runs[std::min(seed, original.runs.size() - 1)];
    if (!mentions(flags, kAloneStep)) return "";
    Variant alone = original;
    alone.label = "one worker alone";
    return add_run(alone, subject_.alone(original.flags), file_.seeds[0], 0);
  }

  const StudyFile& file_;
  const Subject& subject_;
  Study& study_;
  const std::vector<std::string> names_;
  std::vector<Point> points_;  // of the measured variants
};

// "10,000 samples, 3 epochs, 3 seeds": what a reader must know before the figures.
std::string size_note_of(const StudyFile& file) {
  std::vector<std::string> parts;
  const auto say = [&](const char* flag, const char* unit) {
    const auto found = file.base.find(flag);
    if (found != file.base.end()) parts.push_back(found->second.text() + " " + unit);
  };
  say("limit", "training samples");
  say("epochs", "epochs");
  say("steps", "steps");
  const std::size_t n = file.seeds.size();
  parts.push_back(fmt::format("{} {}", n, n == 1 ? "run of each" : "seeds"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

void set_pace(Flags& flags, const std::string& step, const std::string& jitter) {
  const auto cluster = flags.find("cluster");
  if (cluster == flags.end() || cluster->second.values.empty()) return;
  std::string& text = cluster->second.values[0];
  for (const auto& [words, setting] :
       {std::pair{kMeasuredStep, &step}, {kAloneStep, &step}, {kMeasuredJitter, &jitter}})
    if (const auto at = text.find(words); at != std::string::npos)
      text.replace(at, std::string_view(words).size(), *setting);
}

std::string run_id(const std::string& command, const nlohmann::json& settings,
                   const std::string& timed_by, std::uint64_t repeat) {
  const std::string content = nlohmann::json{
      {"behaviour", kBehaviour},
      {"command", command},
      {"settings", settings},
      {"timed_by", timed_by},
      {"repeat", repeat}}.dump();
  return checksum({content.data(), content.size()}).substr(0, 12);
}

Study plan_study(const StudyFile& file, const Subject& subject) {
  Study study;
  static_cast<StudyAbout&>(study) = file;
  study.file = file.path;
  study.commit = subject.commit();
  study.seeded = subject.seeded();
  study.size_note = size_note_of(file);
  Planner planner(file, subject, study);
  planner.plan();
  planner.sort();
  return study;
}

void add_tuned(Study& study, const StudyFile& file, const Subject& subject,
               const std::function<std::optional<double>(const std::string& run)>& score) {
  Planner planner(file, subject, study);
  for (const Variant& untuned : std::vector(study.variants)) {
    Trial* best = nullptr;
    double best_score = 0;
    for (Trial& trial : study.trials) {
      if (trial.variant != untuned.label) continue;
      const auto scored = score(trial.run);
      if (scored && (!best || *scored > best_score)) best = &trial, best_score = *scored;
    }
    if (!best) continue;
    best->chosen = true;
    Variant tuned = untuned;
    tuned.label += ", tuned";
    tuned.twin.clear();
    tuned.tuned = best->value;
    tuned.flags = over(untuned.flags, best->value);
    tuned.runs.clear();
    for (std::size_t s = 0; s < file.seeds.size(); ++s)
      tuned.runs.push_back(
          planner.add_run(tuned, tuned.flags, file.seeds[s], study.run(untuned.runs[s]).turn));
    study.variants.push_back(std::move(tuned));
  }
  planner.sort();
}

}  // namespace lockstep::study
