// The command whose runs a study compares. cli/ knows the commands and their flags; a study asks
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "study/flags.h"

namespace lockstep::study {

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

}  // namespace lockstep::study
