#include "strategies/sma_sum.h"

#include <algorithm>

#include "collectives/broadcast.h"
#include "collectives/reduce.h"
#include "core/topology.h"

namespace lockstep {

SmaSum::SmaSum(const Crew& crew, int learners) : crew_(crew), learners_(learners) {
  if (crew.workers % learners != 0)
    throw UsageError(fmt::format("{} workers with {} learners a device: give a multiple of {}",
                                 crew.workers, learners, learners));
  if (learners == 1) return;
  const int me = crew.rank.rank(), first = me - me % learners;
  std::vector<int> device, firsts;
  for (int r = first; r < first + learners; ++r) device.push_back(r);
  for (int r = 0; r < crew.workers; r += learners) firsts.push_back(r);
  device_.emplace(crew.rank.peers, device);
  if (me == first) firsts_.emplace(crew.rank.peers, firsts);

  std::vector<int> hosts;  // in order of first appearance
  for (const int r : firsts) {
    const int host = crew.rank.peers.host_of(r);
    const auto known = std::ranges::find(hosts, host);
    place_of_firsts_.host_of.push_back(static_cast<int>(known - hosts.begin()));
    if (known == hosts.end()) hosts.push_back(host);
  }
}

const AllReduceRow& SmaSum::between_devices() const {
  return crew_.collective.name == "shared" ? all_reduce_named("round-robin") : crew_.collective;
}

void SmaSum::run(Tag tag, Values values) {
  if (learners_ == 1) return crew_.collective.run(crew_.rank.peers, tag, values.as(Op::sum));
  reduce(*device_, tag, values.as(Op::sum));
  if (firsts_) between_devices().run(*firsts_, tag, values.as(Op::sum));
  broadcast(*device_, tag, values.as(Op::sum));
}

std::uint64_t SmaSum::bytes(int rank, std::size_t count) const {
  if (learners_ == 1)
    return crew_.collective.sent(count, place_of(crew_.rank.peers), rank) * sizeof(float);
  const int place = rank % learners_;
  const std::size_t up =
      place != 0 ? count : between_devices().sent(count, place_of_firsts_, rank / learners_);
  const std::size_t down = count * binomial_tree(place, learners_).children.size();
  return (up + down) * sizeof(float);
}

}  // namespace lockstep
