// The sum over all learners: each device adds up to its first learner, the first learners
// all-reduce among themselves, and each hands the total back. Between devices goes what one learner
// a device would send.
#pragma once

#include <optional>

#include "strategies/strategy.h"
#include "transport/group.h"

namespace lockstep {

class SmaSum {
 public:
  // So many consecutive ranks are a device. UsageError unless they are all in one.
  SmaSum(const Crew&, int learners);

  // On return all ranks hold the sum, the same bits. Collective.
  void run(Tag, Values);
  // Bytes that `rank` sends in that.
  std::uint64_t bytes(int rank, std::size_t count) const;

 private:
  // By what the first learners exchange. Their values are in no window of theirs alone;
  // round-robin gives the bits of `shared` anywhere.
  const AllReduceRow& between_devices() const;

  const Crew crew_;
  const int learners_;
  std::optional<Group> device_;  // of this rank
  std::optional<Group> firsts_;  // if this rank is one of them
  Place place_of_firsts_;
};

}  // namespace lockstep
