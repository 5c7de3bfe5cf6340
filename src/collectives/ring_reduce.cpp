// Unchunked ring reduce: the sum of whole vectors goes 0 -> 1 -> … -> m-1, then the total goes
// m-1 -> 0 -> … -> m-2. 2(m-1) rounds of size N in series, each hop waiting for the whole vector:
// the traffic of the ring and m times its time. Rank r sends 2N; ranks m-2 and m-1 send N.
#include <limits>

#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

void ring_reduce_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), r = transport.rank();
  if (m == 1) return;
  const int next = ring_next(r, m), previous = ring_previous(r, m);
  Messages messages(transport, tag, std::numeric_limits<std::size_t>::max());
  const bool last = r == m - 1;
  const auto sum = r == 0 ? Messages::kStart : messages.fold(previous, values, last ? m : 0);
  if (last) {
    messages.send(next, values, sum);
  } else {
    const auto passed_on = messages.send(next, values, sum);
    const auto total = messages.take(previous, values, passed_on);
    if (r != m - 2) messages.send(next, values, total);
  }
  messages.run();
}

std::size_t ring_reduce_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks();
  if (m == 1) return 0;
  return rank < m - 2 ? 2 * count : count;
}

}  // namespace lockstep
