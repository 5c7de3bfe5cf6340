// Reads lines from several descriptors at once, with a deadline, and notices an interrupt.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"

namespace lockstep::bench {

// The user pressed Ctrl-C. Exit status 130.
class Interrupted : public Error {
 public:
  Interrupted() : Error("stopped") {}
};

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

}  // namespace lockstep::bench
