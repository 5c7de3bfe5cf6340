#include "collectives/reduce_scatter.h"

#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

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

}  // namespace lockstep
