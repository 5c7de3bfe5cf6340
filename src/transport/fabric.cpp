#include "transport/fabric.h"

#include <unistd.h>

#include <barrier>
#include <future>
#include <mutex>
#include <thread>

#include "transport/loopback.h"
#include "transport/real_rank.h"
#include "transport/routed.h"
#include "transport/shm/shm.h"
#include "transport/ucx/ucx.h"

namespace lockstep {
namespace {

// All lanes of a rank, by a function that opens one.
template <class OpenLane>
std::vector<std::unique_ptr<Transport>> opened(Lanes lanes, const OpenLane& open) {
  std::vector<std::unique_ptr<Transport>> all;
  for (int lane = 0; lane < lanes.count(); ++lane) all.push_back(open(lane));
  return all;
}

// Ranks as threads that meet as processes would: each maps its host's memory for itself, has UCX
// workers of its own, and hears of the dead by itself.
class Fabric {
 public:
  Fabric(int ranks, const FabricOptions& options) : options_(options) {
    const int per_host = options.ranks_per_host > 0 ? options.ranks_per_host : ranks;
    for (int r = 0; r < ranks; ++r) {
      hosts_.push_back(r / per_host);
      deaths_.push_back(std::make_unique<Deaths>(ranks));
    }
    leader_fd_.resize(hosts_.back() + 1);
    for (auto& promise : leader_fd_) fd_of_.push_back(promise.get_future().share());
  }

  // For open_far(): a worker for every lane, on the loopback interface.
  void start_workers() {
    for (int lane = 0; lane < options_.lanes.count(); ++lane) {
      auto& workers = workers_.emplace_back();
      auto& addresses = addresses_.emplace_back();
      for (std::size_t r = 0; r < hosts_.size(); ++r)
        addresses.push_back(workers.emplace_back(std::make_unique<UcxWorker>("lo"))->address());
    }
  }

  // On the rank's thread: waits for the first of its host.
  std::shared_ptr<ShmHost> open_host(int rank) {
    const ShmOptions shm{rank, hosts_, options_.patience_seconds, options_.lanes};
    if (rank > 0 && hosts_[rank - 1] == hosts_[rank])
      return std::make_shared<ShmHost>(shm, *deaths_[rank], getpid(), fd_of_[hosts_[rank]].get());
    auto host = std::make_shared<ShmHost>(shm, *deaths_[rank]);
    leader_fd_[hosts_[rank]].set_value(host->fd());
    return host;
  }

  std::unique_ptr<UcxTransport> open_far(int rank, int lane, bool other_hosts_only) {
    std::vector<std::string> addresses = addresses_[lane];
    for (std::size_t r = 0; r < addresses.size(); ++r)
      if (other_hosts_only && hosts_[r] == hosts_[rank]) addresses[r].clear();
    return std::make_unique<UcxTransport>(std::move(workers_[lane][rank]),
                                          UcxPlace{rank, hosts_, options_.patience_seconds},
                                          std::move(addresses), *deaths_[rank]);
  }

  void run(const OpenLanes& lanes, const Body& body) {
    const auto body_then_leave = [&](Rank& rank) {
      struct Leaving {  // as a coordinator would tell it: before this rank closes anything
        Fabric& fabric;
        const int rank;
        ~Leaving() {
          for (const auto& deaths : fabric.deaths_) deaths->report_left(rank);
        }
      } leaving{*this, rank.rank()};
      body(rank);
    };
    run_threads(static_cast<int>(hosts_.size()), lanes, body_then_leave, options_);
  }

 private:
  const FabricOptions& options_;
  std::vector<int> hosts_;  // by rank
  std::vector<std::unique_ptr<Deaths>> deaths_;
  std::vector<std::promise<int>> leader_fd_;  // by host
  std::vector<std::shared_future<int>> fd_of_;
  std::vector<std::vector<std::unique_ptr<UcxWorker>>> workers_;  // by lane and rank
  std::vector<std::vector<std::string>> addresses_;
};

}  // namespace

void run_threads(int ranks, const OpenLanes& lanes, const Body& body,
                 const FabricOptions& options) {
  options.lanes.check();
  std::mutex mutex;
  std::exception_ptr first;
  const auto note = [&] {
    std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
  };
  std::barrier all_here(ranks);  // nobody leaves before all have come
  const auto run = [&](int r) {
    std::unique_ptr<RealRank> rank;
    try {
      rank = std::make_unique<RealRank>(lanes(r), options.seed);
    } catch (...) {
      note();
    }
    all_here.arrive_and_wait();
    if (!rank) return;
    try {
      body(rank->rank());
    } catch (...) {
      note();  // before ~RealRank tells the others that this one left
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  for (auto& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

void run_loopback(int ranks, const Body& body, const FabricOptions& options) {
  const auto hub = make_loopback_hub(ranks, options.lanes.count(), options.ranks_per_host,
                                     options.patience_seconds);
  const auto lanes = [&](int rank) {
    return opened(options.lanes, [&](int lane) { return open_loopback(hub, rank, lane); });
  };
  run_threads(ranks, lanes, body, options);
}

void run_shm(int ranks, const Body& body, const FabricOptions& options) {
  Fabric fabric(ranks, options);
  const auto lanes = [&](int rank) {
    const auto host = fabric.open_host(rank);
    return opened(options.lanes, [&](int lane) { return open_shm(host, lane); });
  };
  fabric.run(lanes, body);
}

void run_ucx(int ranks, const Body& body, const FabricOptions& options) {
  Fabric fabric(ranks, options);
  fabric.start_workers();
  const auto lanes = [&](int rank) {
    return opened(options.lanes, [&](int lane) { return fabric.open_far(rank, lane, false); });
  };
  fabric.run(lanes, body);
}

void run_routed(int ranks, const Body& body, const FabricOptions& options) {
  Fabric fabric(ranks, options);
  fabric.start_workers();
  const auto lanes = [&](int rank) {
    const auto host = fabric.open_host(rank);
    return opened(options.lanes, [&](int lane) {
      auto far = fabric.open_far(rank, lane, true);
      const Doze doze = [&wire = *far](double seconds) { wire.doze(seconds); };
      return open_routed(open_shm(host, lane), std::move(far), doze);
    });
  };
  fabric.run(lanes, body);
}

}  // namespace lockstep
