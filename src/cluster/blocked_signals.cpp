#include "cluster/blocked_signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

// Where the handler writes; a handler can reach nothing else.
std::atomic<int> handler_pipe{-1};

void pass_on(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(handler_pipe, &byte, 1);
  errno = error;
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
}

}  // namespace

BlockedSignals::BlockedSignals(std::vector<int> some) : signals_(std::move(some)) {
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
    std::erase(signals_, SIGHUP);
  handled_before_.resize(signals_.size());
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : signals_) sigaddset(&signals, signal);
  blocked_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (blocked_ < 0) throw_errno("signalfd");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("pipe2");
  caught_ = ends[0];
  handler_pipe = ends[1];
  either_ = epoll_create1(EPOLL_CLOEXEC);
  if (either_ < 0) throw_errno("epoll_create1");
  watch(either_, blocked_);
  watch(either_, caught_);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals_.size(); ++i)
    sigaction(signals_[i], &action, &handled_before_[i]);
}

BlockedSignals::~BlockedSignals() {
  for (std::size_t i = 0; i < signals_.size(); ++i)
    sigaction(signals_[i], &handled_before_[i], nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  close(either_);
  close(handler_pipe.exchange(-1));
  close(caught_);
  close(blocked_);
}

int BlockedSignals::take() {
  signalfd_siginfo info;
  if (read(blocked_, &info, sizeof info) == sizeof info) return static_cast<int>(info.ssi_signo);
  unsigned char signal = 0;
  return read(caught_, &signal, 1) == 1 ? signal : 0;
}

}  // namespace lockstep
