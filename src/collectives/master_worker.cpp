// Master-worker: rank 0 adds up all vectors in rank order and sends the total back. Two rounds, in
// which the master handles m-1 messages one after the other. A worker sends N, the master N(m-1)
// and receives as much: the link of the master is the bottleneck. What a lone parameter server
// does.
#include <numeric>

#include "collectives/all_reduce.h"
#include "collectives/messages.h"

namespace lockstep {

void master_worker_all_reduce(Transport& transport, Tag tag, Values values) {
  const int m = transport.size();
  Messages messages(transport, tag);
  if (transport.rank() != 0) {
    const auto sent = messages.send(0, values);
    messages.take(0, values, sent);
  } else if (m > 1) {
    std::vector<int> workers(m - 1);
    std::iota(workers.begin(), workers.end(), 1);
    const auto sum = messages.fold(workers, values, m);
    for (const int worker : workers) messages.send(worker, values, sum);
  }
  messages.run();
}

std::size_t master_worker_sent(std::size_t count, const Place& place, int rank) {
  if (place.ranks() == 1) return 0;
  return rank == 0 ? count * (place.ranks() - 1) : count;
}

}  // namespace lockstep
