// A study as it is carried out: its variants, the runs of each, and how far they have come. Kept in
// study.json beside the runs, from which alone the report can be made again.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/study_file.h"

namespace lockstep::study {

// One run of the command. Its id says what it does and nothing else, so that whatever was run
// before is found again.
struct Run {
  std::string id;       // 12 hexadecimal digits; its folder is runs/ID
  std::string variant;  // label of the first variant that it belongs to
  std::uint64_t seed = 0;
  Flags flags;           // complete, but for what says where to write
  std::string timed_by;  // the run that shows how long this one's simulated step takes, or empty
  int turn = 0;          // runs of a lower turn come first
  std::string status = "waiting";  // waiting|done|failed|stopped|not run
  std::string reason = {};
  double seconds = 0;  // that it took; 0: not known
};

// What is compared: a name and a point of the grid, tuned or not, measured or simulated.
struct Variant {
  std::string label;                         // unique
  std::string name;                          // as in the file
  std::map<std::string, std::string> group;  // by axis
  Flags own;                                 // what sets it apart from the others
  Flags flags;                               // all of them, without the seed
  bool simulated = false;
  Flags tuned;                    // what tuning chose; empty: untuned
  std::string twin;               // label of the variant that simulates this one, or empty
  std::vector<std::string> runs;  // ids, by seed
};

// One value tried for one variant before the comparison.
struct Trial {
  std::string variant;  // label of the untuned one
  Flags value;
  std::string run;
  bool chosen = false;
};

struct ShownAxis {
  std::string name;
  std::vector<std::string> values;
};

struct Study : StudyAbout {
  std::string file;    // studies/a.toml
  std::string commit;  // of the program that ran it last
  bool seeded = true;  // the command takes --seed
  std::string size_note;
  std::vector<ShownAxis> axes;  // those with more than one value
  std::vector<Variant> variants;
  std::vector<Trial> trials;
  std::vector<Run> runs;  // in the order in which they are run

  Run& run(const std::string& id);
  const Run& run(const std::string& id) const;
  const Variant* variant(const std::string& label) const;  // nullptr: none
  // Was its twin told how long a step took in it, so that it predicts the exchange?
  bool predicted(const Variant&) const;
  std::size_t count(const std::string& status) const;
};

// What a person would type for this run, program and all.
std::string command_line(const Study&, const Run&);
std::vector<std::string> words_of(const Study&, const Run&);

nlohmann::ordered_json to_json(const Study&);
// UsageError if it is no study.json.
Study study_from(const nlohmann::json&, const std::string& path);
// DIR/study.json.
std::string study_file_in(const std::string& folder);
std::string folder_of(const std::string& folder, const Run&);

}  // namespace lockstep::study
