// Text on its way to people: Output writes to a descriptor such as stdout, LinePrinter passes on
// what a child process says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace lockstep {

// A thread of its own writes, so that the one that has something to say never waits: not for a
// reader that stalls, nor for one that is gone. All calls from any thread.
class Output {
 public:
  // The descriptor stays the caller's, and blocking or not as it is.
  explicit Output(int descriptor);
  // Returns when all has been written, or nobody reads any more, or the time of hurry() is over.
  ~Output();
  Output(const Output&) = delete;

  // Kept until it is written, whatever there is before it: results, and what went wrong.
  void say(std::string text);
  // Left out if something before it still waits for the reader: a progress line.
  void mention(std::string text);
  // Left out while more than 1 MiB waits; how often that was is told as soon as there is room.
  void pass_on(std::string text);

  // Why nothing could be written any more, as errno has it. 0: all was written, or the reader has
  // left and wants no more.
  int failure() const;
  // Does more than 1 MiB wait?
  bool full() const;
  // Waits until all has been written or nobody reads any more, at most so long.
  void drain(double seconds);
  // The same, as patient as the destructor is.
  void drain() { drain(patience_s_); }
  // From now on the destructor waits at most so long.
  void hurry(double seconds) { patience_s_ = seconds; }

  int descriptor() const { return descriptor_; }

 private:
  struct Queue;
  const int descriptor_;
  // Shared with the thread, which may outlive this where the kernel does not let go of a write.
  const std::shared_ptr<Queue> queue_;
  double patience_s_;
  std::thread thread_;
};

// The exit status of a command whose result went to `out`. Waits, as `out` does at its end, until
// all has been written. Returns `status`, or 1 in place of 0 if something could not be written: a
// result that nobody could get is no success. Then `err` says why, and that the file `kept_in` has
// it.
int delivered(int status, Output& out, Output& err, const std::string& kept_in);

// Passes a worker's output on, whole lines at a time: to our own output, each with its rank before
// it, or to a listener.
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
