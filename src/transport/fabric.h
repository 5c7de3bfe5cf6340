// Starts n ranks inside this process and introduces them to each other: for tests, examples,
// benchmarks and simulation. Processes of a real job are introduced by cluster/job.h instead.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/lanes.h"
#include "transport/rank.h"

namespace lockstep {

// What one rank does. Runs on a thread (or an actor) of its own.
using Body = std::function<void(Rank&)>;

struct FabricOptions {
  std::uint64_t seed = 1;
  double patience_seconds = kDefaultPatienceSeconds;
  int ranks_per_host = 0;  // 0: all on one host. Pretended where the hosts are not real.
  Lanes lanes = {};
};

// Each returns when all ranks have returned. If any threw, the error that came first is thrown
// here; a rank that throws leaves, so the others don't wait for it.
void run_loopback(int ranks, const Body&, const FabricOptions& = {});
void run_shm(int ranks, const Body&, const FabricOptions& = {});  // threads, a mapping each
void run_ucx(int ranks, const Body&,
             const FabricOptions& = {});  // threads, a context each, on `lo`
void run_routed(int ranks, const Body&, const FabricOptions& = {});  // hosts by ranks_per_host

// What the above share: `lanes(r)` opens rank r's lanes, on rank r's thread.
using OpenLanes = std::function<std::vector<std::unique_ptr<Transport>>(int rank)>;
void run_threads(int ranks, const OpenLanes& lanes, const Body&, const FabricOptions&);

}  // namespace lockstep
