// Ring: the vector is cut into m chunks. Reduce-scatter: at step s rank r sends chunk r-s to r+1
// and adds chunk r-s-1 from r-1, after which it owns the total of chunk r+1; all-gather: the totals
// go round once more. Chunk c is summed in the order c, c+1, … of ranks. 2(m-1) rounds; rank r
// sends 2N - |c_(r+1)| - |c_(r+2)|, about 2N(m-1)/m, which no all-reduce can beat (Patarasu, Yuan:
// Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009).
#include "collectives/ring.h"

#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

void ring_all_reduce(Transport& transport, Tag tag, Values values) {
  ring_total(transport, tag, values, transport.size());
}

void ring_total(Transport& transport, Tag tag, Values values, int ranks) {
  const int m = transport.size(), r = transport.rank();
  const int next = ring_next(r, m), previous = ring_previous(r, m);
  const auto chunk_at = [&](int c) { return values.part(chunk(values.count(), m, (c + m) % m)); };
  Messages messages(transport, tag, segment_bytes_if_busy(chunk_at(0)));

  std::vector<Messages::Step> sent(m);
  auto sum = Messages::kStart;
  for (int s = 0; s < m - 1; ++s) {
    sent[s] = messages.send(next, chunk_at(r - s), sum);
    sum = messages.fold(previous, chunk_at(r - s - 1), s == m - 2 ? ranks : 0);
  }

  auto total = sum;
  for (int s = 0; s < m - 1; ++s) {
    messages.send(next, chunk_at(r + 1 - s), total);
    total = messages.take(previous, chunk_at(r - s), sent[s]);
  }
  messages.run();
}

void reduce_scatter(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), r = transport.rank();
  const auto chunk_at = [&](int c) {
    return values.part(chunk(values.count(), m, (c + 2 * m) % m));
  };
  Messages messages(transport, tag);
  auto sum = Messages::kStart;
  for (int s = 1; s < m; ++s) {
    messages.send(ring_next(r, m), chunk_at(r - s), sum);
    sum = messages.fold(ring_previous(r, m), chunk_at(r - s - 1), s == m - 1 ? m : 0);
  }
  messages.run();
}

std::size_t ring_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks();
  if (m == 1) return 0;
  return 2 * count - chunk(count, m, (rank + 1) % m).count - chunk(count, m, (rank + 2) % m).count;
}

}  // namespace lockstep
