#include "strategies/servers/server_shards.h"

namespace lockstep {

void rethrow_naming_server(const Crew& crew, std::size_t count, const TransportError& e) {
  if (!e.is_gone()) throw;
  for (int k = 0; k < crew.servers; ++k) {
    if (crew.rank.peers.job_rank(crew.rank_of_server(k)) != e.peer()) continue;
    const Slice held = server_shard(crew, k, count);
    throw TransportError(
        e.kind(), e.peer(),
        fmt::format("server {} (rank {}), which held {}, is gone: {}", k, e.peer(),
                    held.count ? fmt::format("parameters {}..{}", held.begin, held.end() - 1)
                               : "no parameters",
                    e.what()));
  }
  throw;
}

}  // namespace lockstep
