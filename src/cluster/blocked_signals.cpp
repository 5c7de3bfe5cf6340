#include "cluster/blocked_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/error.h"

namespace lockstep {

BlockedSignals::BlockedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw_errno("signalfd");
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

BlockedSignals::~BlockedSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  close(fd_);
}

int BlockedSignals::take() {
  signalfd_siginfo info;
  return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace lockstep
