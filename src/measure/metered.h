// Counts what passes: a send's payload when it is posted (taken back if it is cancelled), a
// receive's when it has completed; and what Window::moved reports: read from a peer's memory counts
// as received, written to it as sent, without a message. A message that arrives while its receive
// is being cancelled is not counted.
#pragma once

#include <unordered_map>

#include "measure/ledger.h"
#include "transport/decorator.h"
#include "transport/rank.h"

namespace lockstep {

class Metered : public Decorator {
 public:
  // The ledger has a line for each rank of `inner`, outlives this, and belongs to the same thread,
  // or is only touched under `guard`.
  Metered(Transport& inner, Ledger& ledger, Lock* guard = nullptr)
      : Decorator(inner), ledger_(ledger), guard_(guard) {}

  [[nodiscard]] Request send(int to, Tag, ConstBytes) override;
  [[nodiscard]] Request recv(int from, Tag, Bytes into, Combine combine = nullptr) override;
  std::size_t wait_any(std::span<const Request>, Deadline, Arrival* arrival = nullptr) override;
  std::optional<Arrival> test(Request) override;
  bool cancel(Request) override;

 private:
  class View;
  struct Open {
    Purpose purpose;
    int to = -1;  // -1: a receive
    std::size_t bytes = 0;
  };

  void ended(Request, const Arrival&);
  std::unique_ptr<WindowView> view_of(Window&) override;

  template <class F>
  void guarded(F&& change) {
    if (guard_) guard_->lock();
    change();
    if (guard_) guard_->unlock();
  }

  Ledger& ledger_;
  Lock* const guard_;
  std::unordered_map<std::uint64_t, Open> open_;
};

}  // namespace lockstep
