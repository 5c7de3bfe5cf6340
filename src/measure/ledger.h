// How much one rank sent and received, by peer and purpose. A plain value: copy it to take a
// snapshot, subtract an earlier one to see what happened between. Not thread-safe: one a lane,
// added up by the owner.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/tag.h"

namespace lockstep {

struct Traffic {
  std::uint64_t bytes_sent = 0, messages_sent = 0;
  std::uint64_t bytes_received = 0, messages_received = 0;

  Traffic& operator+=(const Traffic&);
  Traffic& operator-=(const Traffic&);
  bool operator==(const Traffic&) const = default;
};

class Ledger {
 public:
  explicit Ledger(int ranks) : lines_(static_cast<std::size_t>(ranks) * kPurposes) {}

  int ranks() const { return static_cast<int>(lines_.size()) / kPurposes; }
  Traffic& at(int peer, Purpose);
  const Traffic& at(int peer, Purpose) const;

  // REQUIRES: as many ranks on both sides; for the difference, that the other is the earlier.
  Ledger& operator+=(const Ledger&);
  Ledger& operator-=(const Ledger&);
  friend Ledger operator-(Ledger later, const Ledger& earlier) { return later -= earlier; }
  bool operator==(const Ledger&) const = default;

 private:
  std::vector<Traffic> lines_;
};

Traffic total(const Ledger&);
Traffic total_of(const Ledger&, Purpose);
Traffic total_with(const Ledger&, int peer);

}  // namespace lockstep
