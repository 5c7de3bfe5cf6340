// Turns signals into something to poll while it lives, also where threads were started before it
// that do not block them. One at a time in a process.
#pragma once

#include <csignal>
#include <vector>

namespace lockstep {

class BlockedSignals {
 public:
  // SIGHUP stays ignored if it is: nohup(1) asks for that.
  explicit BlockedSignals(std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP});
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;

  // Readable when take() has a signal to return.
  int fd() const { return either_; }
  // The signal that arrived, or 0.
  int take();

 private:
  std::vector<int> signals_;
  int blocked_;  // a signalfd: what this thread and later ones block
  int caught_;   // the end of a pipe: what the handler caught on an earlier thread
  int either_;   // an epoll of both
  sigset_t before_;
  std::vector<struct sigaction> handled_before_;  // as signals_
};

}  // namespace lockstep
