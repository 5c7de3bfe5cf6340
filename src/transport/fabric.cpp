#include "transport/fabric.h"

#include <barrier>
#include <mutex>
#include <thread>

#include "transport/real_rank.h"

namespace lockstep {

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

}  // namespace lockstep
