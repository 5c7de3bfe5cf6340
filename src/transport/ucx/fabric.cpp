// Ranks as threads that meet as processes would, over UCX on the loopback interface; and, for
// run_routed, with shared memory between the ranks of each pretended host.
#include "transport/fabric.h"

#include <unistd.h>

#include <future>

#include "transport/real_rank.h"
#include "transport/routed.h"
#include "transport/shm/shm.h"
#include "transport/ucx/ucx.h"

namespace lockstep {
namespace {

// Every lane's worker of a job that runs inside this process.
class UcxFabric {
 public:
  UcxFabric(int ranks, const FabricOptions& options)
      : options_(options), lanes_(options.lanes.count()), addresses_(lanes_.size()) {
    const int per_host = options.ranks_per_host > 0 ? options.ranks_per_host : ranks;
    for (int r = 0; r < ranks; ++r) {
      hosts_.push_back(r / per_host);
      // One each, as if they were processes.
      deaths_.push_back(std::make_unique<Deaths>(ranks));
      for (auto& lane : lanes_) lane.push_back(std::make_unique<UcxWorker>("lo"));
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      for (const auto& worker : lanes_[lane]) addresses_[lane].push_back(worker->address());
  }

  std::unique_ptr<UcxTransport> open(int rank, int lane, bool other_hosts_only) {
    std::vector<std::string> addresses = addresses_[lane];
    for (std::size_t r = 0; r < addresses.size(); ++r)
      if (other_hosts_only && hosts_[r] == hosts_[rank]) addresses[r].clear();
    return std::make_unique<UcxTransport>(std::move(lanes_[lane][rank]),
                                          UcxPlace{rank, hosts_, options_.patience_seconds},
                                          std::move(addresses), *deaths_[rank]);
  }

  // As a coordinator would tell them: before this rank closes anything.
  void leaves(int rank) {
    for (const auto& deaths : deaths_) deaths->report_left(rank);
  }

  const std::vector<int>& hosts() const { return hosts_; }
  Deaths& deaths(int rank) { return *deaths_[rank]; }

 private:
  const FabricOptions options_;
  std::vector<int> hosts_;
  std::vector<std::unique_ptr<Deaths>> deaths_;
  std::vector<std::vector<std::unique_ptr<UcxWorker>>> lanes_;  // by rank
  std::vector<std::vector<std::string>> addresses_;
};

void run(UcxFabric& fabric, int ranks, const OpenLanes& lanes, const Body& body,
         const FabricOptions& options) {
  const auto body_then_leave = [&](Rank& rank) {
    struct Leaving {
      UcxFabric& fabric;
      const int rank;
      ~Leaving() { fabric.leaves(rank); }
    } leaving{fabric, rank.rank()};
    body(rank);
  };
  run_threads(ranks, lanes, body_then_leave, options);
}

}  // namespace

void run_ucx(int ranks, const Body& body, const FabricOptions& options) {
  UcxFabric fabric(ranks, options);
  const auto lanes = [&](int rank) {
    std::vector<std::unique_ptr<Transport>> opened;
    for (int lane = 0; lane < options.lanes.count(); ++lane)
      opened.push_back(fabric.open(rank, lane, false));
    return opened;
  };
  run(fabric, ranks, lanes, body, options);
}

void run_routed(int ranks, const Body& body, const FabricOptions& options) {
  UcxFabric fabric(ranks, options);
  std::vector<std::promise<int>> leader_fd(fabric.hosts().back() + 1);
  std::vector<std::shared_future<int>> fd_of;
  for (auto& promise : leader_fd) fd_of.push_back(promise.get_future().share());
  const auto lanes = [&](int rank) {
    const int host_number = fabric.hosts()[rank];
    const ShmOptions shm{rank, fabric.hosts(), options.patience_seconds, options.lanes};
    std::shared_ptr<ShmHost> host;
    if (rank == 0 || fabric.hosts()[rank - 1] != host_number) {
      host = std::make_shared<ShmHost>(shm, fabric.deaths(rank));
      leader_fd[host_number].set_value(host->fd());
    } else {
      host =
          std::make_shared<ShmHost>(shm, fabric.deaths(rank), getpid(), fd_of[host_number].get());
    }
    std::vector<std::unique_ptr<Transport>> opened;
    for (int lane = 0; lane < options.lanes.count(); ++lane) {
      auto far = fabric.open(rank, lane, true);
      const Doze doze = [&far = *far](double seconds) { far.doze(seconds); };
      opened.push_back(open_routed(open_shm(host, lane), std::move(far), doze));
    }
    return opened;
  };
  run(fabric, ranks, lanes, body, options);
}

}  // namespace lockstep
