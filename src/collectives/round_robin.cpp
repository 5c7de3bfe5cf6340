// Round-robin: rank r owns chunk r. Everyone sends each owner its chunk directly; the owner adds
// them to its own in the fixed order r-1, r-2, … and sends the total to everyone. 2(m-1) rounds
// over m(m-1) links; rank r sends N - |c_r| + (m-1)|c_r|, about 2N(m-1)/m. A parameter server in m
// co-located shards is exactly this; sums at one place suit quantised data.
#include "collectives/all_reduce.h"
#include "collectives/messages.h"

namespace lockstep {

void round_robin_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), r = transport.rank();
  const auto chunk_of = [&](int rank) { return values.part(chunk(values.count(), m, rank)); };
  Messages messages(transport, tag, segment_bytes_if_busy(chunk_of(0)));
  std::vector<Messages::Step> sent(m, Messages::kStart);
  std::vector<int> others;
  for (int s = 1; s < m; ++s) {
    const int to = (r + s) % m;
    sent[to] = messages.send(to, chunk_of(to));
    others.push_back((r - s + m) % m);
  }
  const auto sum = messages.fold(others, chunk_of(r), m);
  for (int s = 1; s < m; ++s) {
    const int to = (r + s) % m, from = (r - s + m) % m;
    messages.send(to, chunk_of(r), sum);
    messages.take(from, chunk_of(from), sent[from]);
  }
  messages.run();
}

std::size_t round_robin_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks();
  const std::size_t own = chunk(count, m, rank).count;
  return count - own + (m - 1) * own;
}

}  // namespace lockstep
