// The clusters of `--cluster`: local, sim:… and netns:…, with the same words for both.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cluster/netns.h"
#include "core/options.h"
#include "core/rng.h"
#include "measure/profile.h"
#include "transport/simulated/simulated.h"

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

// How long a step's computation takes in simulation: a number or a profile, made slower or unsteady
// rank by rank. It is never measured while simulating, so that runs repeat.
struct ComputeTime {
  double step_s = 0.1;         // forward, backward and optimiser on a full batch
  double jitter = 0;           // relative deviation of a step's time, normal
  std::map<int, double> slow;  // by rank: its factor
  // What a step's time is spent on, as shares of it: forward, backward, and the rest on the
  // optimiser. Where no profile says so: one third and two thirds.
  double forward = 1.0 / 3, backward = 2.0 / 3;
  // Of a profile: after which share of backward each part of the gradients is ready. Where none
  // says so, backward takes as long for each parameter.
  struct Ready {
    Slice part;
    double share = 0;
  };
  std::vector<Ready> ready = {};

  // Of `rank`'s next step on `share` of a full batch (0 to 1, or more). Draws from `random` if
  // there is jitter.
  double of(int rank, double share, Rng& random) const;
};

// A simulated cluster with workers that compute.
struct Simulation {
  SimulatedCluster cluster;
  ComputeTime compute;
  bool measured = false;  // neither step= nor profile=: the caller measures a step and says so
  std::optional<Profile> profile;
  // What compressors take, never measured while simulating either: of coding=FILE, else of
  // profile=FILE. A compressor that is not among them takes no time; with coding=, it is refused.
  std::vector<CodingRate> coding = {};
  bool must_know_coding = false;
  bool numerics = true;

  // Of that compressor, with all its parameters. None: nothing is known of it. UsageError.
  std::optional<CodingRate> coding_of(std::string_view compressor) const;
};
// sim:…,step=100ms|profile=FILE,coding=FILE,jitter=0.1,slow=rank3:2.0,numerics=on|off. `guests`: so
// many ranks beyond `ranks`, on the hosts of the first. UsageError.
Simulation simulation_from(const std::string& spec, int ranks, std::uint64_t seed, int guests = 0);

}  // namespace lockstep
