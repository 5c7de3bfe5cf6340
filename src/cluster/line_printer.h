// Passes a worker's output on, whole lines at a time: to our own output, each with its rank before
// it, or to whoever listens.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cluster/output.h"

namespace lockstep {

class LinePrinter {
 public:
  using Listener = std::function<void(std::string_view line)>;

  // `to` outlives this.
  LinePrinter(Output& to, std::string prefix) : to_(&to), prefix_(std::move(prefix)) {}
  // Hands lines to the listener, without their ends.
  explicit LinePrinter(Listener listener) : listener_(std::move(listener)) {}

  // Prints the lines that are complete; of one that grows past 64 KiB, what there is.
  void add(std::string_view bytes);
  // Prints an unfinished last line.
  void finish();
  // Reads what there is from non-blocking `fd` and adds it. False: no more will come (and
  // finish()ed).
  bool read_from(int fd);

 private:
  void print(std::string_view lines);

  Output* to_ = nullptr;
  std::string prefix_;
  Listener listener_;
  std::string rest_;
};

}  // namespace lockstep
