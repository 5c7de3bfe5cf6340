// The clusters of `--cluster`: local, sim:… and netns:…, with the same words for both.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/netns.h"
#include "core/options.h"
#include "train/compute_time.h"
#include "transport/simulated_cluster.h"

namespace lockstep {

struct ClusterRow {
  std::string_view name, description, parameters;
};
std::span<const ClusterRow> clusters();
// local|sim|netns. UsageError lists them.
std::string cluster_kind(const std::string& spec);

// The keys that say what the network is like: hosts, ranks_per_host, bandwidth, latency, topology.
std::span<const std::string_view> network_keys();
// Reads those, all but the number of ranks. UsageError.
SimulatedCluster network_from(const Options&);
// ranks_per_host and bandwidth. UsageError; `hosts` is left to the caller.
NetnsOptions netns_from(const std::string& spec);
// From hosts x ranks_per_host if `asked` is 0 and hosts is given, else as asked, which then must
// agree; else `otherwise`.
int ranks_in(const std::string& spec, int asked, int otherwise);

// A simulated cluster with workers that compute.
struct Simulation {
  SimulatedCluster cluster;
  ComputeTime compute;
  bool measured = false;  // neither step= nor profile=: the caller measures a step and says so
  std::optional<Profile> profile;
  bool numerics = true;
};
// sim:…,step=100ms|profile=FILE,jitter=0.1,slow=rank3:2.0,numerics=on|off. `guests`: so many ranks
// beyond `ranks`, on the hosts of the first. UsageError.
Simulation simulation_from(const std::string& spec, int ranks, std::uint64_t seed, int guests = 0);

}  // namespace lockstep
