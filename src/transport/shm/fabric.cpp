// Ranks as threads that meet as processes would: each maps the segment for itself.
#include "transport/fabric.h"

#include <unistd.h>

#include <future>

#include "transport/real_rank.h"
#include "transport/shm/shm.h"

namespace lockstep {

void run_shm(int ranks, const Body& body, const FabricOptions& options) {
  const int per_host = options.ranks_per_host > 0 ? options.ranks_per_host : ranks;
  std::vector<int> host_of(ranks);
  for (int r = 0; r < ranks; ++r) host_of[r] = r / per_host;
  std::vector<std::promise<int>> leader_fd((ranks + per_host - 1) / per_host);
  std::vector<std::shared_future<int>> fd_of;
  for (auto& promise : leader_fd) fd_of.push_back(promise.get_future().share());
  std::vector<std::unique_ptr<Deaths>> deaths(ranks);

  const auto lanes = [&](int rank) {
    deaths[rank] = std::make_unique<Deaths>(ranks);
    const ShmOptions shm{rank, host_of, options.patience_seconds, options.lanes};
    std::shared_ptr<ShmHost> host;
    if (rank % per_host == 0) {
      host = std::make_shared<ShmHost>(shm, *deaths[rank]);
      leader_fd[host_of[rank]].set_value(host->fd());
    } else {
      host = std::make_shared<ShmHost>(shm, *deaths[rank], getpid(), fd_of[host_of[rank]].get());
    }
    std::vector<std::unique_ptr<Transport>> opened;
    for (int lane = 0; lane < options.lanes.count(); ++lane) opened.push_back(open_shm(host, lane));
    return opened;
  };
  run_threads(ranks, lanes, body, options);
}

}  // namespace lockstep
