#include "strategies/sma_sum.h"

#include <algorithm>
#include <numeric>

#include "collectives/broadcast.h"
#include "collectives/reduce.h"
#include "core/topology.h"

namespace lockstep {
namespace {

std::vector<int> ranks_in_a_row(int first, int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

SmaSum::SmaSum(const Crew& crew, int most) : crew_(crew), most_(most) {
  if (most == 1) return;
  const int me = crew.rank.rank(), first = me - me % most;
  std::vector<int> firsts;
  for (int r = 0; r < crew.workers; r += most) firsts.push_back(r);
  device_.emplace(crew.rank.peers, ranks_in_a_row(first, learners_beside(me, most)));
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

int SmaSum::learners_beside(int rank, int learners) const {
  return std::min(learners, crew_.workers - (rank - rank % most_));
}

void SmaSum::run(Tag tag, Values values, int learners) {
  if (most_ == 1) return crew_.collective.run(crew_.rank.peers, tag, values.as(Op::sum));
  const int place = device_->rank();
  if (place < learners) {
    Group adding(*device_, ranks_in_a_row(0, learners_beside(crew_.rank.rank(), learners)));
    reduce(adding, tag, values.as(Op::sum));
  }
  if (firsts_) between_devices().run(*firsts_, tag, values.as(Op::sum));
  broadcast(*device_, tag, values.as(Op::sum));
}

std::uint64_t SmaSum::bytes(int rank, std::size_t count, int learners) const {
  if (most_ == 1)
    return crew_.collective.sent(count, place_of(crew_.rank.peers), rank) * sizeof(float);
  const int place = rank % most_;
  const std::size_t up = place == 0 ? between_devices().sent(count, place_of_firsts_, rank / most_)
                                    : (place < learners ? count : 0);
  const std::size_t down =
      count * binomial_tree(place, learners_beside(rank, most_)).children.size();
  return (up + down) * sizeof(float);
}

}  // namespace lockstep
