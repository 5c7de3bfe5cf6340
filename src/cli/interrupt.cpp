#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "core/error.h"

namespace lockstep {
namespace {

// A signal handler has no other way to reach its object.
std::atomic<int> interrupt_descriptor{-1};

void on_signal(int) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = write(interrupt_descriptor, &one, sizeof one);
}

void handle_with(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
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

bool Interrupt::requested() const {
  pollfd readable{descriptor_, POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

}  // namespace lockstep
