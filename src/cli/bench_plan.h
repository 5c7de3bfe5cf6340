// What one call of `lockstep bench` is to do: flags read, checked and turned into values. Nothing
// is started or written before all of them are right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/work.h"
#include "cli/environment.h"
#include "cluster/launch.h"
#include "transport/simulated.h"

namespace lockstep {

// As typed. Empty: by the cluster.
struct BenchFlags {
  HostFlags hosts;
  std::string ranks, warmup, iterations, repeats, against;
  std::string first = "4K", last = "100M", factor = "10", type = "fp32", collectives = "auto",
              transport = "auto", cluster = "local";
  bool json = false;
};

struct BenchPlan {
  bench::Work work;  // all but the collective and the size
  int ranks = 2;
  std::vector<std::size_t> sizes;
  int repeats = 5;
  std::vector<std::string> collectives;
  std::string transport;                      // auto|shm|ucx|loopback|simulated
  std::optional<SimulatedCluster> simulated;  // if transport is simulated
  std::optional<NetnsOptions> netns;
  std::vector<std::string> against;
  std::optional<Start> start;    // another launcher started us: this process is one rank
  std::string listen, key_file;  // of the job that we launch
  bool json = false;
};

BenchPlan plan_from(const BenchFlags&, bench::Operation);  // UsageError

}  // namespace lockstep
