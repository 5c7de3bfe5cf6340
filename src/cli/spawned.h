// A program that starts the workers itself, such as mpirun, as the crew of an engine.
#pragma once

#include <sys/types.h>

#include <vector>

#include "bench/piped_engine.h"

namespace lockstep {

class Spawned : public bench::Crew {
 public:
  // Found on PATH; in a process group of its own, its input empty and its output to our stderr.
  // InternalError if it can't be started.
  explicit Spawned(std::vector<std::string> words);
  // It should be leaving by now; if not it is terminated, and killed if that does not help.
  ~Spawned() override;

  bench::Verdict verdict() override;

 private:
  bool ended_within(double seconds);

  const std::string program_;
  pid_t pid_ = -1;
  int handle_ = -1;  // readable when it has ended
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep
