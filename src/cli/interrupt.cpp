#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "core/error.h"

namespace lockstep {
namespace {

// A signal handler has no other way to reach its object.
std::atomic<int> interrupt_descriptor{-1};
std::atomic<int> last{0};

void on_signal(int signal) {
  const int error = errno;
  last = signal;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = write(interrupt_descriptor, &one, sizeof one);
  errno = error;
}

void handle_with(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (signal == SIGHUP && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

Interrupt::Interrupt() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw_errno("eventfd");
  interrupt_descriptor = descriptor_;
  handle_with(on_signal);
}

Interrupt::~Interrupt() {
  handle_with(SIG_DFL);
  interrupt_descriptor = -1;
  close(descriptor_);
}

void Interrupt::request(int signal) { on_signal(signal); }

int Interrupt::last_signal() { return last; }

bool Interrupt::requested() const {
  pollfd readable{descriptor_, POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

}  // namespace lockstep
