// The open operations of one transport, found by Request. Slots are reused, so that a message costs
// no allocation, and addresses stay while an operation is open.
#pragma once

#include <deque>
#include <vector>

#include "transport/failure.h"
#include "transport/transport.h"

namespace lockstep {

// What the operations of all wires have.
struct WireOperation {
  std::uint64_t id = 0;  // 0 while its slot is free
  bool is_bell = false;
  int peer = 0;  // of a bell: the rank itself
  Tag tag;
  Bytes into;  // of a receive
  Combine combine = nullptr;
};

// Op has an `id`; most are WireOperations.
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

  Op& add(int peer, Tag tag, Bytes into = {}, Combine combine = nullptr) {
    Op& op = add();
    op.peer = peer;
    op.tag = tag;
    op.into = into;
    op.combine = combine;
    return op;
  }
  Op& add_bell(int rank) {
    Op& op = add(rank, {});
    op.is_bell = true;
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

  // For Transport::wait_any(): how the first of these ended for which `how(Op&)` tells an Ending.
  template <class How>
  std::optional<Ending> first(std::span<const Request> requests, How how) {
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (std::optional<Ending> ending = how(find(requests[i]))) {
        ending->index = i;
        return ending;
      }
    return {};
  }
  // And that `rank` has waited for them past its deadline.
  Ending late(std::span<const Request> requests, int rank) {
    const Op& op = find(requests[0]);
    return {0, {}, too_late(op.peer, rank, op.tag)};
  }

 private:
  static constexpr int kSlotBits = 28;
  static std::size_t slot_of(std::uint64_t id) { return id & ((1u << kSlotBits) - 1); }

  std::deque<Op> slots_;
  std::vector<std::size_t> free_;
  std::uint64_t count_ = 0;
};

}  // namespace lockstep
