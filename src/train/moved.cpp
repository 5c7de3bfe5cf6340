#include "train/moved.h"

namespace lockstep {

Traffic Moved::by_strategy() const {
  Traffic moved = total_of(ledger_, Purpose::gradients);
  return moved += total_of(ledger_, Purpose::weights);
}

Traffic Moved::exchanged() const {
  Traffic moved = by_strategy();
  if (moved.messages_sent + moved.messages_received == 0)
    moved.bytes_sent = moved.bytes_received = moved.bytes_sent + moved.bytes_received;
  return moved += exchanged_before_;
}

Traffic Moved::other() const {
  Traffic rest = total(ledger_);
  rest -= by_strategy();
  return rest += other_before_;
}

void Moved::restore(const Traffic& exchanged, const Traffic& other) {
  exchanged_before_ = exchanged;
  other_before_ = other;
}

}  // namespace lockstep
