// The open operations of one transport, found by Request. Slots are reused, so that a message costs
// no allocation, and addresses stay while an operation is open.
#pragma once

#include <deque>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

// Op has an `id` of its own: 0 while its slot is free.
template <class Op>
class Operations {
 public:
  Op& add() {
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    Op& op = slots_[slot];
    op = {};
    op.id = ++count_ << kSlotBits | slot;
    return op;
  }

  Op& find(Request request) {
    if (Op* const op = find_open(request)) return *op;
    throw InternalError(fmt::format("request {} is not open", request.id));
  }
  // nullptr: it has ended.
  Op* find_open(Request request) {
    const std::size_t slot = slot_of(request.id);
    const bool open = request.id != 0 && slot < slots_.size() && slots_[slot].id == request.id;
    return open ? &slots_[slot] : nullptr;
  }

  void end(Op& op) {
    free_.push_back(slot_of(op.id));
    op.id = 0;
  }

  std::deque<Op>& slots() { return slots_; }

 private:
  static constexpr int kSlotBits = 28;
  static std::size_t slot_of(std::uint64_t id) { return id & ((1u << kSlotBits) - 1); }

  std::deque<Op> slots_;
  std::vector<std::size_t> free_;
  std::uint64_t count_ = 0;
};

}  // namespace lockstep
