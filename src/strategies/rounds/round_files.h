// Models as files, by which the manager of rounds and its workers exchange them, in exchange/ of
// the run's folder; on several hosts that must be a shared folder. A file is written under another
// name, then renamed, and ends with a checksum, so that what is read is whole.
#pragma once

#include <string>

#include "strategies/rounds/round_mail.h"

namespace lockstep {

class RoundFiles {
 public:
  // Makes the folder.
  explicit RoundFiles(const std::string& run_folder);

  // Names of files: the model that a round starts from; what a worker made of a task.
  static std::string of_round(std::uint64_t round);
  static std::string of_result(std::uint64_t round, int task, int worker);

  void write(const std::string& name, const RoundModel&) const;
  // False: there is no such file. UsageError if it is damaged, or of another network.
  bool read(const std::string& name, const RoundModel& into) const;
  void remove(const std::string& name) const;

  // UsageError: `what` should be there and is not.
  [[noreturn]] void throw_not_shared(const std::string& what) const;

  // Removes the files of that round and of earlier ones, which nobody needs any more, but not a
  // file that a late worker is still writing.
  void remove_until(std::uint64_t round) const;
  void remove_all() const;

 private:
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
};

}  // namespace lockstep
