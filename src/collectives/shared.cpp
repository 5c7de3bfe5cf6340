// Shared: all ranks are on one host and the values lie in windows. They meet; rank r adds up chunk
// r straight from everybody's memory, in the order of round-robin (hence the same bits), and writes
// the total into everybody's memory; they meet again, since nobody may touch its values while
// others still write there. Two meetings and no messages; rank r reads (m-1)|c_r| from its peers
// and writes as much.
#include "collectives/all_reduce.h"
#include "core/total.h"

namespace lockstep {
namespace {

// Up to so many ranks the addresses are kept without allocating.
constexpr int kFewRanks = 64;

// `other` came for something else than I did.
TransportError disagreement(const Transport& transport, const Window& window, int other) {
  const int me = transport.rank();
  const auto call = [&](int rank) {
    const auto [count, offset, format] = window.said(rank);
    return fmt::format("rank {} came with {} values ({}) at byte {} of its window",
                       transport.job_rank(rank), count,
                       format_name(static_cast<std::uint8_t>(format)), offset);
  };
  return {TransportError::Kind::mismatch, transport.job_rank(other),
          fmt::format("all-reduce in shared memory: {}, {}: all ranks call with the same size, "
                      "type and place",
                      call(other), call(me))};
}

}  // namespace

Window* window_of_all(Transport& transport, Values values) {
  const Bytes bytes = values.bytes();
  if (!bytes.data) return nullptr;
  Window* window = transport.window_at(bytes.data);
  if (!window || !window->reaches_all()) return nullptr;
  if (window->members().size() != static_cast<std::size_t>(transport.size())) return nullptr;
  const Bytes mine = window->mine();
  return bytes.data + bytes.size <= mine.data + mine.size ? window : nullptr;
}

void shared_all_reduce(Transport& transport, Tag tag, Values values) {
  if (transport.size() == 1 || values.count() == 0) return;
  Window* window = window_of_all(transport, values);
  if (!window)
    throw UsageError(
        "all-reduce `shared` works on memory that all ranks see: allocate it with open_window(), "
        "with all ranks on one host, or choose another collective");
  all_reduce_in(*window, transport, tag, values);
}

void all_reduce_in(Window& window, Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), r = transport.rank();
  if (m == 1 || values.count() == 0) return;
  const Values own = values.part(chunk(values.count(), m, r));
  const std::size_t own_offset = own.bytes().data - window.mine().data;
  std::byte* few[kFewRanks];
  std::vector<std::byte*> many(m > kFewRanks ? m : 0);
  const std::span<std::byte*> others(m > kFewRanks ? many.data() : few, m - 1);
  for (int s = 1; s < m; ++s) {
    const int peer = r < s ? r - s + m : r - s;
    others[s - 1] = window.of(peer).data + own_offset;
  }
  const std::size_t offset = values.bytes().data - window.mine().data;
  const Window::Words words{values.count(), offset, values.format()};
  const int other = window.meet(words);
  if (other != -1) throw disagreement(transport, window, other);
  for (int s = 1; s < m; ++s)
    window.moved((r - s + m) % m, tag, own.bytes().size, own.bytes().size);
  join_all(own, others, m, true);
  window.meet(words);
}

std::size_t shared_sent(std::size_t count, const Place& place, int rank) {
  const int m = place.ranks();
  return 2 * (m - 1) * chunk(count, m, rank).count;
}

}  // namespace lockstep
