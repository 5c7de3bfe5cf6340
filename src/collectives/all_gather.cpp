#include "collectives/all_gather.h"

#include <numeric>
#include <vector>

#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {
namespace {

void round_the_ring(Transport& transport, Tag tag, Values values, std::span<const Slice> parts) {
  const int m = transport.size(), r = transport.rank();
  const auto part_of = [&](int rank) { return values.part(parts[(rank + m) % m]); };
  Messages messages(transport, tag);
  auto got = Messages::kStart;
  for (int s = 0; s < m - 1; ++s) {
    messages.send(ring_next(r, m), part_of(r - s), got);
    got = messages.take(ring_previous(r, m), part_of(r - s - 1));
  }
  messages.run();
}

// Straight from everybody to everybody: one round, and as many bytes as round the ring.
std::vector<std::uint64_t> gathered_counts(Transport& transport, Tag tag, std::uint64_t mine) {
  const int m = transport.size(), r = transport.rank();
  std::vector<std::uint64_t> counts(m);
  counts[r] = mine;
  const auto count_of = [&](int rank) { return Values(&counts[rank], 1, Type::int64); };
  Messages messages(transport, tag);
  for (int s = 1; s < m; ++s) {
    messages.send((r + s) % m, count_of(r));
    messages.take((r - s + m) % m, count_of((r - s + m) % m));
  }
  messages.run();
  return counts;
}

}  // namespace

void all_gather(Transport& transport, Tag tag, Values values) {
  const int m = transport.size();
  std::vector<Slice> parts;
  for (int r = 0; r < m; ++r) parts.push_back(chunk(values.count(), m, r));
  round_the_ring(transport, tag, values, parts);
}

void all_gather_v(Transport& transport, Tag tag, Values values,
                  std::span<const std::size_t> counts) {
  const int m = transport.size();
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
  round_the_ring(transport, tag, values, parts);
}

std::vector<std::size_t> all_gather_slots(Transport& transport, Tag tag, Values slots,
                                          std::size_t count) {
  const int m = transport.size();
  const std::size_t slot = slots.count() / m;
  if (slots.count() % m != 0 || count > slot)
    throw UsageError(fmt::format(
        "all-gather of a part of {} values among {} ranks was given {} values for all parts: give "
        "one slot of equal length for every rank, as long as the longest part may be",
        count, m, slots.count()));
  const auto counts = gathered_counts(transport, tag, count);
  std::vector<Slice> parts;
  for (int r = 0; r < m; ++r) {
    if (counts[r] > slot)
      throw TransportError(
          TransportError::Kind::mismatch, transport.job_rank(r),
          fmt::format("rank {} gathers {} values where rank {} has room for {} ({} {}): all ranks "
                      "call with slots of the same length",
                      transport.job_rank(r), counts[r], transport.job_rank(transport.rank()), slot,
                      name_of(tag.purpose), tag.number));
    parts.push_back({r * slot, counts[r]});
  }
  round_the_ring(transport, tag, slots, parts);
  return {counts.begin(), counts.end()};
}

}  // namespace lockstep
