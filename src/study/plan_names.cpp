#include "study/plan_names.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/names.h"

namespace lockstep::study {
namespace {

bool is_axis(const std::vector<Axis>& axes, const std::string& name) {
  return std::ranges::find(axes, name, &Axis::name) != axes.end();
}

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
    if (std::ranges::find(flags_, name) == flags_.end())
      throw_unknown("flag of " + file_.command, name, flags_);
  } catch (const UsageError& e) {
    throw UsageError(file_.at(where + "." + name) + e.what());
  }

 private:
  const StudyFile& file_;
  const std::vector<std::string_view> flags_;
  std::set<std::string> words_;
};

}  // namespace

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

}  // namespace lockstep::study
