// Hierarchical (2-D): reduce-scatter inside each group of A ranks, ring all-reduce of the shard N/A
// across the B groups, all-gather inside. Groups are hosts if there are several with equally many
// ranks, so that only shards cross the network; else ranks are laid out as A x B with A the largest
// divisor of m up to its root. 2(A-1) + 2(B-1) rounds; a rank sends about 2N(m-1)/m, of which
// 2(N/A)(B-1)/B to other groups.
#include <cmath>

#include "collectives/all_gather.h"
#include "collectives/all_reduce.h"
#include "collectives/ring.h"
#include "transport/group.h"

namespace lockstep {
namespace {

// The groups, each in rank order and equally long.
using Groups = std::vector<std::vector<int>>;

Groups groups_of(const Place& place) {
  if (Groups hosts = by_host(place); even_hosts(hosts)) return hosts;
  int a = static_cast<int>(std::sqrt(place.ranks()));
  while (place.ranks() % a != 0) --a;
  Groups grid(place.ranks() / a);
  for (int r = 0; r < place.ranks(); ++r) grid[r / a].push_back(r);
  return grid;
}

// Where a rank is: in which group, and at which place in it.
struct Seat {
  int group, place;
};

Seat seat_of(int rank, const Groups& groups) {
  for (int g = 0; g < static_cast<int>(groups.size()); ++g)
    for (int i = 0; i < static_cast<int>(groups[g].size()); ++i)
      if (groups[g][i] == rank) return {g, i};
  throw InternalError(fmt::format("rank {} is in no group", rank));
}

}  // namespace

void hierarchical_all_reduce(Transport& transport, Tag tag, Values values) {
  const Groups groups = groups_of(place_of(transport));
  const Seat seat = seat_of(transport.rank(), groups);
  std::vector<int> same_place;
  for (const auto& group : groups) same_place.push_back(group[seat.place]);
  Group inside(transport, groups[seat.group]), across(transport, same_place);

  // Inside a group values only add; the mean is taken once, of the total.
  tag = tag.with_format(values.format());
  const Slice shard = chunk(values.count(), inside.size(), inside.rank());
  reduce_scatter(inside, tag, values.op() == Op::mean ? values.as(Op::sum) : values);
  ring_total(across, tag, values.part(shard), transport.size());
  all_gather(inside, tag, values);
}

std::size_t hierarchical_sent(std::size_t count, const Place& place, int rank) {
  const Groups groups = groups_of(place);
  const Seat seat = seat_of(rank, groups);
  const int a = static_cast<int>(groups[0].size());
  const std::size_t shard = chunk(count, a, seat.place).count;
  const Place across{std::vector<int>(groups.size())};
  return count - shard + ring_sent(shard, across, seat.group) + count -
         chunk(count, a, (seat.place + 1) % a).count;
}

}  // namespace lockstep
