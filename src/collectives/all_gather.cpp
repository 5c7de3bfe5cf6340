#include "collectives/all_gather.h"

#include <numeric>
#include <vector>

#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

void all_gather(Transport& transport, Tag tag, Values values) {
  const int m = transport.size();
  std::vector<std::size_t> counts(m);
  for (int r = 0; r < m; ++r) counts[r] = chunk(values.count(), m, r).count;
  all_gather_v(transport, tag, values, counts);
}

void all_gather_v(Transport& transport, Tag tag, Values values,
                  std::span<const std::size_t> counts) {
  const int m = transport.size(), r = transport.rank();
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (counts.size() != static_cast<std::size_t>(m) || sum != values.count())
    throw UsageError(
        fmt::format("all-gather of {} values among {} ranks was given {} counts that add up to {}",
                    values.count(), m, counts.size(), sum));
  std::vector<Slice> parts;
  for (std::size_t begin = 0; const std::size_t count : counts) {
    parts.push_back({begin, count});
    begin += count;
  }

  const auto part_of = [&](int rank) { return values.part(parts[(rank + m) % m]); };
  Messages messages(transport, tag);
  auto got = Messages::kStart;
  for (int s = 0; s < m - 1; ++s) {
    messages.send(ring_next(r, m), part_of(r - s), got);
    got = messages.take(ring_previous(r, m), part_of(r - s - 1));
  }
  messages.run();
}

}  // namespace lockstep
