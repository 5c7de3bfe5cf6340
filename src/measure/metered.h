// Counts what passes: a send's payload when it is posted (taken back if it is given up before it is
// on its way), a receive's when it has completed; and what Window::moved reports: read from a
// peer's memory counts as received, written to it as sent, without a message. A message that is
// lost with a receive that is given up is not counted.
#pragma once

#include <atomic>
#include <unordered_map>

#include "measure/ledger.h"
#include "transport/decorators/decorator.h"

namespace lockstep {

// Keeps apart who changes a ledger and who reads it, for moments. For any thread. Not a Lock: that
// may pass time in simulation, which giving up a request must not.
class LedgerGuard {
 public:
  void lock() {
    while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true);
  }
  void unlock() {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic_flag taken_;
};

class Metered : public Decorator {
 public:
  // The ledger has a line for each rank of `inner`, outlives this, and belongs to the same thread,
  // or is only touched under `guard`.
  Metered(Transport& inner, Ledger& ledger, LedgerGuard* guard = nullptr)
      : Decorator(inner), ledger_(ledger), guard_(guard) {}

  Request post_send(int to, Tag, ConstBytes) override;
  Request post_recv(int from, Tag, Bytes into, Combine) override;
  Ending wait_any(std::span<const Request>, Deadline) override;
  std::optional<Ending> test(Request) override;
  bool give_up(Request) noexcept override;

 private:
  class View;
  struct Open {
    Purpose purpose;
    int to = -1;  // -1: a receive
    std::size_t bytes = 0;
  };

  void ended(Request, const Ending&);
  std::unique_ptr<WindowView> view_of(Window&) override;

  template <class F>
  void guarded(F&& change) {
    if (guard_) guard_->lock();
    change();
    if (guard_) guard_->unlock();
  }

  Ledger& ledger_;
  LedgerGuard* const guard_;
  std::unordered_map<std::uint64_t, Open> open_;
};

}  // namespace lockstep
