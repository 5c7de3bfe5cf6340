// Butterfly (recursive doubling): at distances 1, 2, 4, … partners swap whole vectors and both add
// them, the lower rank's first, so that both get the same bits. log2 m rounds, the fewest there
// are; a rank sends N log2 m. If m is not a power of two, the m-p ranks above the largest power p
// are folded into a neighbour first and told the result last: they send N, and their neighbours
// N(log2 p + 1) (Thakur, Rabenseifner, Gropp: Optimization of collective communication operations
// in MPICH, 2005).
#include <bit>
#include <utility>

#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "core/topology.h"

namespace lockstep {

void butterfly_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), p = power_below(m);
  const auto [id, neighbour] = fold(transport.rank(), m);
  Messages messages(transport, tag);
  if (m == 1) return;
  if (id == -1) {
    const auto sent = messages.send(neighbour, values);
    messages.take(neighbour, values, sent);
    return messages.run();
  }
  if (neighbour != -1) {
    messages.fold(neighbour, values);
    messages.run();
  }

  // What is being sent may not change, so the partner's vector needs a place of its own.
  const Scratch scratch(values, values.count());
  Values mine = values, theirs = scratch.values();
  for (int d = 1; d < p; d *= 2) {
    const int partner = unfold(hypercube_partner(id, d), m);
    messages.send(partner, mine);
    messages.take(partner, theirs);
    messages.run();
    if (id & d) std::swap(mine, theirs);
    std::byte* const other = theirs.bytes().data;
    join_all(mine, {&other, 1}, 2 * d == p ? m : 0);
  }
  if (mine.bytes().data != values.bytes().data) copy(values.bytes(), mine.bytes());

  if (neighbour != -1) {
    messages.send(neighbour, values);
    messages.run();
  }
}

std::size_t butterfly_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks();
  const auto [id, neighbour] = fold(rank, m);
  if (id == -1) return count;
  const int rounds = std::bit_width(static_cast<unsigned>(power_below(m))) - 1;
  return count * (rounds + (neighbour != -1));
}

}  // namespace lockstep
