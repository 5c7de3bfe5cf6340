// The flags of `lockstep bench`, and what they ask for: read, checked and turned into values.
// Nothing is started or written before all of them are right.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/work.h"
#include "cli/flags.h"
#include "cluster/launch.h"
#include "transport/simulated/simulated.h"

namespace lockstep {

struct BenchPlan {
  bench::Work work;  // all but the collective and the size
  int ranks = 2;     // workers, and servers where there are any
  std::vector<std::size_t> sizes;
  int repeats = 5;
  std::vector<std::string> collectives;       // of pushpull: strategies
  std::string transport;                      // auto|shm|ucx|loopback|simulated
  std::optional<SimulatedCluster> simulated;  // if transport is simulated
  std::optional<NetnsOptions> netns;
  std::vector<std::string> against;
  std::optional<Start> start;    // another launcher started us: this process is one rank
  std::string listen, key_file;  // of the job that we launch
  bool json = false;
};

// The flags as typed. Empty ones are decided by the cluster.
struct BenchFlags {
  // Adds the operations and their flags to the command, which outlives this.
  explicit BenchFlags(CLI::App& bench);
  BenchFlags(const BenchFlags&) = delete;  // the flags are written where this lies

  // What they ask for, checked. Call after the parse. UsageError.
  BenchPlan plan() const;

  HostFlags hosts;
  std::string ranks, warmup, iterations, repeats, against;
  std::string first = "4K", last = "100M", factor = "10", type = "fp32", collectives = "auto",
              transport = "auto", cluster = "local", servers = "1",
              strategies = "parameter-server,asp";
  bool json = false;

 private:
  CLI::App* add(CLI::App& bench, const std::string& name, const std::string& description);

  CLI::App *p2p_, *pushpull_;
};

}  // namespace lockstep
