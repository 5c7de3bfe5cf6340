// Passes a worker's output on, whole lines at a time, each with its rank before it.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

class LinePrinter {
 public:
  // Writes to descriptor `to`, which stays the caller's.
  LinePrinter(int to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}

  // Prints the lines that are complete; of one that grows past 64 KiB, what there is.
  void add(std::string_view bytes);
  // Prints an unfinished last line.
  void finish();
  // Reads what there is from non-blocking `fd` and adds it. False: no more will come (and
  // finish()ed).
  bool read_from(int fd);

 private:
  void print(std::string_view lines);

  int to_;
  std::string prefix_;
  std::string rest_;
};

}  // namespace lockstep
