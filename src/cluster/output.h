// Text on its way to a descriptor, such as stdout, that somebody else reads. A thread of its own
// writes it, so that whoever has something to say never waits: not for a reader that stalls, nor
// for one that is gone. All calls from any thread.
#pragma once

#include <memory>
#include <string>
#include <thread>

namespace lockstep {

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

  // Why nothing could be written any more, as errno has it; 0: all was, or the reader has left,
  // who wants no more.
  int failure() const;
  // Does more than 1 MiB wait?
  bool full() const;
  // Waits until all has been written or nobody reads any more, at most so long.
  void drain(double seconds);
  // The same, as patient as the destructor is.
  void drain() { drain(patience_s_); }
  // From now on the destructor waits at most so long.
  void hurry(double seconds);

  int descriptor() const { return descriptor_; }

 private:
  struct Queue;
  const int descriptor_;
  // Shared with the thread, which may outlive this where the kernel does not let go of a write.
  const std::shared_ptr<Queue> queue_;
  double patience_s_;
  std::thread thread_;
};

}  // namespace lockstep
