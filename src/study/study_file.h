// A study as its author wrote it: the TOML file, read and checked for form. What its values mean is
// the command's business (Subject), and what runs follow from it that of the plan: see plan.h.
//
// docs/studies/README.md is the reference of the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "study/flags.h"

namespace lockstep::study {

// A flag, or a word that stands in braces in other values, and what it is in turn.
struct Axis {
  std::string name;
  std::vector<Given> values;
  bool operator==(const Axis&) const = default;
};

struct NamedFlags {
  std::string name;
  Flags flags;
};

struct Twin {
  Flags flags;                       // over those of the run that it simulates
  std::vector<Axis> grid;            // further axes of its own
  std::vector<std::uint64_t> seeds;  // empty: the study's
};

// What a study is about, as it stays while it is carried out.
struct StudyAbout {
  bool quick = false;
  std::string title, question, about;
  std::string command = "train";
  std::string baseline;  // a variant's name, or empty
  double minutes = 0;    // of running, at most; 0: as long as it takes
};

struct StudyFile : StudyAbout {
  std::string path;
  Flags base;
  std::vector<NamedFlags> variants;
  std::vector<Axis> grid;
  std::vector<std::uint64_t> seeds{1};
  std::vector<Axis> tune;
  std::uint64_t tune_seed = 1000;
  std::vector<Twin> twin;  // none or one

  std::map<std::string, int> lines;  // of "base.workers", "variant.NAME.strategy", "grid.workers"

  // "studies/a.toml:12: ", for messages; without a line where there is none for `key`.
  std::string at(const std::string& key) const;
};

// With [quick]'s settings in place of the others if `quick`. UsageError: "FILE:LINE: what is wrong,
// what would be right", also for a mistake in [quick] when it is not asked for.
StudyFile read_study(const std::string& path, bool quick);
StudyFile parse_study(const std::string& text, const std::string& path, bool quick);

}  // namespace lockstep::study
