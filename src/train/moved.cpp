#include "train/moved.h"

namespace lockstep {

Ledger Moved::all() const {
  Ledger all = ledger_;
  for (const MeteredBackground* jobs : jobs_) all += jobs->ledger();
  return all;
}

Traffic Moved::by_strategy(const Ledger& ledger) {
  Traffic moved = total_of(ledger, Purpose::gradients);
  return moved += total_of(ledger, Purpose::weights);
}

Traffic Moved::exchanged() const {
  Traffic moved = by_strategy(all());
  if (moved.messages_sent + moved.messages_received == 0)
    moved.bytes_sent = moved.bytes_received = moved.bytes_sent + moved.bytes_received;
  return moved += exchanged_before_;
}

Traffic Moved::other() const {
  const Ledger ledger = all();
  Traffic rest = total(ledger);
  rest -= by_strategy(ledger);
  return rest += other_before_;
}

void Moved::restore(const Traffic& exchanged, const Traffic& other) {
  exchanged_before_ = exchanged;
  other_before_ = other;
}

}  // namespace lockstep
