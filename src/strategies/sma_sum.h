// The sum over all learners: each device adds up to its first rank, the first ranks all-reduce
// among themselves, and each hands the total back to its whole device. Between devices goes what
// one learner a device would send.
#pragma once

#include <optional>

#include "strategies/strategy.h"
#include "transport/group.h"

namespace lockstep {

class SmaSum {
 public:
  // So many consecutive ranks are a device, at most: the last may have fewer.
  SmaSum(const Crew&, int most);

  // Of that rank's device: its first `learners` ranks, or all it has.
  int learners_beside(int rank, int learners) const;
  // On return all ranks hold the sum over the first `learners` ranks of each device, the same bits.
  // Collective over all ranks.
  void run(Tag, Values, int learners);
  // Bytes that `rank` sends in that.
  std::uint64_t bytes(int rank, std::size_t count, int learners) const;

 private:
  // By what the first learners exchange. Their values are in no window of theirs alone;
  // round-robin gives the bits of `shared` anywhere.
  const AllReduceRow& between_devices() const;

  const Crew crew_;
  const int most_;
  std::optional<Group> device_;  // of this rank
  std::optional<Group> firsts_;  // if this rank is one of them
  Place place_of_firsts_;
};

}  // namespace lockstep
