// Turns SIGINT, SIGTERM and SIGHUP into something to poll while it lives.
#pragma once

#include <csignal>

namespace lockstep {

class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;

  int fd() const { return fd_; }
  // The signal that arrived, or 0.
  int take();

 private:
  int fd_;
  sigset_t before_;
};

}  // namespace lockstep
