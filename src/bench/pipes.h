// How the bench talks to the workers of an engine: two named pipes a worker in a folder of its own.
// A worker that has no work blocks in read() and uses no processor time, whatever its engine does
// when it waits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/lines.h"

namespace lockstep::bench {

// A fresh folder that only this user can enter. Removed with all it holds by the destructor or
// earlier.
class PrivateFolder {
 public:
  explicit PrivateFolder(const std::string& parent);  // UsageError if it can't be made there
  ~PrivateFolder() { remove(); }
  PrivateFolder(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  void remove();

 private:
  const std::string path_;
};

// The bench's ends. One thread.
class BenchPipes {
 public:
  // Makes the pipes; workers may open theirs from now on.
  BenchPipes(const std::string& folder, int workers, int interrupt);
  ~BenchPipes();
  BenchPipes(const BenchPipes&) = delete;

  void tell_all(const std::string& line);
  Lines& answers() { return *lines_; }

 private:
  std::vector<int> commands_, answers_;
  std::optional<Lines> lines_;
};

// A worker's ends. Opening takes the pipes for good: the folder may go once every worker has
// answered.
class WorkerPipe {
 public:
  WorkerPipe(const std::string& folder, int rank);
  ~WorkerPipe();
  WorkerPipe(const WorkerPipe&) = delete;

  // Blocks, without limit: a bench that waits its turn may be silent for long. None: the bench has
  // gone.
  std::optional<std::string> next();
  void answer(const std::string& line) { write_line(answers_, line); }

 private:
  int commands_ = -1, answers_ = -1;
  std::string heard_;
};

}  // namespace lockstep::bench
