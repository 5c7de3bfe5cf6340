// Models as files that the manager of rounds and its workers share, in exchange/ of the run's
// folder: on several hosts that must be a shared one. Written beside and renamed, with lengths and
// a checksum, so that what is read is whole.
#pragma once

#include <string>

#include "strategies/round_mail.h"

namespace lockstep {

class WeightFiles {
 public:
  // Makes the folder.
  explicit WeightFiles(const std::string& run_folder);

  // The model that a round starts from.
  void write(std::uint64_t round, const RoundModel&) const;
  // False: there is no such file. UsageError if it is damaged, or of another network.
  bool read(std::uint64_t round, const RoundModel& into) const;

  // What a worker made of a task.
  void write_result(std::uint64_t round, int task, int worker, const RoundModel&) const;
  bool read_result(std::uint64_t round, int task, int worker, const RoundModel& into) const;
  void remove_result(std::uint64_t round, int task, int worker) const;

  // `what` should be there and is not. UsageError.
  [[noreturn]] void throw_not_shared(const std::string& what) const;

  // Of that round and of earlier ones, which nobody needs any more; but not what somebody who is
  // late is still writing.
  void remove_until(std::uint64_t round) const;
  void remove_all() const;

 private:
  std::string name(std::uint64_t round) const;
  std::string name(std::uint64_t round, int task, int worker) const;

  const std::string folder_;
};

}  // namespace lockstep
