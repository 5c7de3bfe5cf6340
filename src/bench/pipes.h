// How the bench talks to the workers of an engine: lines through two named pipes a worker, in a
// folder of its own. A worker that has no work blocks in read() and uses no processor time,
// whatever its engine does when it waits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep::bench {

// The user pressed Ctrl-C. Exit status 130.
class Interrupted : public Error {
 public:
  Interrupted() : Error("stopped") {}
};

// Reads lines from several descriptors at once, with a deadline, and notices an interrupt.
class Lines {
 public:
  // The descriptors stay the caller's; sources are non-blocking. `interrupt` becomes readable for
  // good when the user wants to stop.
  Lines(std::vector<int> sources, int interrupt);

  using Take = std::function<void(int source, const std::string& line)>;
  // Passes on one line from each source as they come; `take` may throw to give up on the rest.
  // InternalError naming the rank if a source has ended or is silent for so long; or Interrupted.
  void one_from_each(double patience_seconds, const Take& take);
  bool interrupted() const;

 private:
  void read_some(int source);

  const std::vector<int> sources_;
  const int interrupt_;
  std::vector<std::string> heard_;
};

// Blocks until all is written. Throws InternalError if nobody reads any more.
void write_line(int descriptor, const std::string& line);
// Removes the first line from `text` and moves it into `line`; false if there is no whole line yet.
bool take_line(std::string& text, std::string& line);

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
