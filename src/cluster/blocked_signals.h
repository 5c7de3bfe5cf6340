// Turns SIGINT, SIGTERM and SIGHUP into something to poll while it lives, also where threads were
// started before it that do not block them. One at a time in a process.
#pragma once

#include <array>
#include <csignal>

namespace lockstep {

class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;

  // Readable when take() has a signal to return.
  int fd() const { return either_; }
  // The signal that arrived, or 0.
  int take();

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

  int blocked_;  // a signalfd: what this thread and later ones block
  int caught_;   // the end of a pipe: what the handler caught on an earlier thread
  int either_;   // an epoll of both
  sigset_t before_;
  std::array<struct sigaction, kSignals.size()> handled_before_;
};

}  // namespace lockstep
