// All-to-all: every rank sends its whole vector to every other and adds up what it gets in rank
// order 0..m-1, which is the same order everywhere, hence the same bits. One round of m-1 messages;
// each rank sends N(m-1). The plain baseline: nothing beats its latency, anything beats its
// traffic.
#include <algorithm>

#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "collectives/scratch.h"

namespace lockstep {
namespace {

// What is exchanged at once, to bound the scratch memory: (m-1) blocks.
constexpr std::size_t kBlockBytes = kSegmentBytes;

}  // namespace

void all_to_all_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size(), r = transport.rank();
  if (m == 1) return;
  const std::size_t block_count = kBlockBytes / size_of(values.type());
  Scratch scratch(values, std::min(values.count(), block_count) * (m - 1));
  Messages messages(transport, tag);
  for (const Slice slice : pieces({0, values.count()}, block_count)) {
    const Values mine = values.part(slice);
    const auto block_of = [&](int rank) {
      return rank == r ? mine : scratch.values({(rank - (rank > r)) * slice.count, slice.count});
    };
    for (int s = 1; s < m; ++s) {
      const int to = (r + s) % m, from = (r - s + m) % m;
      messages.send(to, mine);
      messages.take(from, block_of(from));
    }
    messages.run();
    std::vector<std::byte*> others;
    for (int rank = 1; rank < m; ++rank) others.push_back(block_of(rank).bytes().data);
    join_all(block_of(0), others, m);
    if (r != 0) copy(mine.bytes(), block_of(0).bytes());
  }
}

std::size_t all_to_all_sent(std::size_t count, const Place& place, int) {
  return count * (place.ranks() - 1);
}

}  // namespace lockstep
