// From a study's file to its variants and runs: the grid written out, every run checked as the
// command itself would check it, and named by what it does.
#pragma once

#include <functional>
#include <optional>

#include "study/study.h"

namespace lockstep::study {

// The command whose runs a study compares. cli/ knows the commands and their flags; a study asks
// it.
class Subject {
 public:
  virtual ~Subject() = default;
  // "train", "bench allreduce".
  virtual std::string command() const = 0;
  // The names of the flags that a study may set.
  virtual std::vector<std::string> flags() const = 0;
  // Which source the program was built from, for records.
  virtual std::string commit() const { return ""; }
  // Does it take --seed? If not, repeats are the same command again.
  virtual bool seeded() const = 0;
  // What these flags come to, less whatever is as it would be without any flags, with hashes of the
  // files that they name and of the program's source: two lists of flags that mean the same run
  // give the same settings, and what would come out different gives others. UsageError if the
  // command would refuse them.
  virtual nlohmann::json settings(const Flags&) const = 0;
  // Flags of a short run that shows how long a step takes a worker that has the machine to itself,
  // in a run with these flags. UsageError where there is no such thing.
  virtual Flags alone(const Flags&) const = 0;
};

// In [twin], words of --cluster stand for what a run has shown: step=measured for a step's time in
// the run which the twin simulates, step=alone for that of one worker which has the machine to
// itself, jitter=measured for how unlike the steps of its workers were. Puts these settings in
// their place: step=3ms, jitter=0.1.
void set_pace(Flags&, const std::string& step, const std::string& jitter);

// Everything but what tuning adds. Trials of tuning come first, then, seed by seed, each variant's
// run, and the twins of that seed: so a study cut short is balanced, and a slow hour hits all
// alike. UsageError, with the file's line, for what can't be run.
Study plan_study(const StudyFile&, const Subject&);

// Once the trials have run: adds for each variant the one with the value that scored best, and its
// runs, unless every trial of it failed. `score`: of a run, if it has one. A tuned variant that
// comes to the same flags shares the runs of the untuned one. UsageError.
void add_tuned(Study&, const StudyFile&, const Subject&,
               const std::function<std::optional<double>(const std::string& run)>& score);

// A run by its content: the same settings have the same id, whatever they are called and in
// whatever order they were given.
std::string run_id(const std::string& command, const nlohmann::json& settings,
                   const std::string& timed_by, std::uint64_t repeat);

}  // namespace lockstep::study
