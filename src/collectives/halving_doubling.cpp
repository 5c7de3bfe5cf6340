// Recursive halving and doubling: at distances p/2, p/4, … 1 partners swap halves of what they
// still hold and each adds the half it keeps, which leaves block i to rank i; at distances 1, 2, …
// p/2 they swap what they have completed. 2 log2 m rounds; a rank sends 2N(m-1)/m if m is a power
// of two. Else the m-p ranks above the largest power p are folded into a neighbour first and told
// the result last: they send N, and their neighbours N + 2N(p-1)/p (Thakur, Rabenseifner, Gropp:
// Optimization of collective communication operations in MPICH, 2005).
#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

void halving_doubling_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), p = power_below(m);
  const auto [id, neighbour] = fold(transport.rank(), m);
  Messages messages(transport, tag);
  if (id == -1) {
    const auto sent = messages.send(neighbour, values);
    messages.take(neighbour, values, sent);
    return messages.run();
  }
  if (neighbour != -1) {
    messages.fold(neighbour, values);
    messages.run();
  }

  const auto blocks = [&](int first, int many) {
    return values.part(chunks(values.count(), p, first, many));
  };
  for (int d = p / 2; d >= 1; d /= 2) {
    const int partner = unfold(hypercube_partner(id, d), m);
    const int keep = id & ~(d - 1);  // the first of d blocks
    messages.send(partner, blocks(keep ^ d, d));
    messages.fold(partner, blocks(keep, d), d == 1 ? m : 0);
    messages.run();
  }
  for (int d = 1; d < p; d *= 2) {
    const int partner = unfold(hypercube_partner(id, d), m);
    const int have = id & ~(d - 1);
    messages.send(partner, blocks(have, d));
    messages.take(partner, blocks(have ^ d, d));
    messages.run();
  }

  if (neighbour != -1) {
    messages.send(neighbour, values);
    messages.run();
  }
}

std::size_t halving_doubling_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks(), p = power_below(m);
  const auto [id, neighbour] = fold(rank, m);
  if (id == -1) return count;
  std::size_t sent = count - chunk(count, p, id).count;
  for (int d = 1; d < p; d *= 2) sent += chunks(count, p, id & ~(d - 1), d).count;
  return neighbour == -1 ? sent : sent + count;
}

}  // namespace lockstep
