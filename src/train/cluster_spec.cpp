#include "train/cluster_spec.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/names.h"
#include "core/units.h"

namespace lockstep {
namespace {

constexpr int kMostRanks = 4096;
constexpr std::string_view kNetworkKeys[] = {"hosts",   "ranks_per_host", "bandwidth",
                                             "latency", "payload",        "topology"};
constexpr std::string_view kComputeKeys[] = {"step",   "profile", "coding",
                                             "jitter", "slow",    "numerics"};
constexpr std::string_view kNetnsKeys[] = {"hosts", "ranks_per_host", "bandwidth"};
constexpr std::string_view kTopologyKeys[] = {"oversubscription", "hosts_per_rack"};
constexpr std::string_view kTopologies[] = {"star", "tree"};

constexpr ClusterRow kClusters[] = {
    {"local", "processes on this machine", ""},
    {"sim", "simulated workers in virtual time, with real gradients or with sizes alone",
     "bandwidth=10Gbps,latency=50us,payload=1,hosts=,ranks_per_host=1,topology=star|tree:"
     "oversubscription=4,"
     "step=100ms|profile=FILE,coding=FILE,jitter=0,slow=rank3:2.0,numerics=on|off"},
    {"netns", "hosts on this machine: a network namespace each (needs root)",
     "bandwidth=,hosts=,ranks_per_host=1"},
};

int positive(const Options& options, std::string_view key, int otherwise) {
  const auto value = options.integer(key, otherwise);
  if (value < 1 || value > kMostRanks)
    throw UsageError(
        fmt::format("{}: {} must be from 1 to {}, not {}", options.name(), key, kMostRanks, value));
  return static_cast<int>(value);
}

// "rank3:2.0".
void read_slow(const std::string& text, int ranks, ComputeTime& compute) {
  const auto wrong = [&] {
    return UsageError(fmt::format(
        "sim: slow takes rank:factor, e.g. slow=rank3:2.0 for a rank 3 that takes twice as long, "
        "not '{}'",
        text));
  };
  const auto colon = text.find(':');
  if (!text.starts_with("rank") || colon == std::string::npos) throw wrong();
  const auto rank = parse_integer(std::string_view(text).substr(4, colon - 4));
  const double factor = parse_number(std::string_view(text).substr(colon + 1));
  if (rank < 0 || rank >= ranks)
    throw UsageError(
        fmt::format("sim: slow names rank {}, and ranks are 0 to {}", rank, ranks - 1));
  if (!(factor > 0)) throw wrong();
  compute.slow[static_cast<int>(rank)] = factor;
}

void read_compute(const Options& options, int ranks, Simulation& simulation) {
  ComputeTime& compute = simulation.compute;
  if (options.has("step") && options.has("profile"))
    throw UsageError("sim: step and profile both say how long a step takes: leave one out");
  simulation.measured = !options.has("step") && !options.has("profile");
  if (options.has("profile")) {
    simulation.profile = read_profile(options.text("profile"));
    const Profile& profile = *simulation.profile;
    compute.step_s = profile.step_s();
    compute.forward = profile.forward_s / compute.step_s;
    compute.backward = profile.backward_s / compute.step_s;
    for (const SliceTime& one : profile.ready)
      compute.ready.push_back(
          {one.part, profile.backward_s > 0 ? std::min(1.0, one.ready_s / profile.backward_s) : 1});
  }
  simulation.must_know_coding = options.has("coding");
  if (simulation.must_know_coding)
    simulation.coding = read_profile(options.text("coding")).coding;
  else if (simulation.profile)
    simulation.coding = simulation.profile->coding;
  if (options.has("step")) compute.step_s = options.seconds("step");
  compute.jitter = options.number("jitter", 0);
  if (!(compute.step_s >= 0)) throw UsageError("sim: step can't be negative");
  if (!(compute.jitter >= 0 && compute.jitter < 1))
    throw UsageError("sim: jitter is a share of the step's time, from 0 to 1, e.g. jitter=0.1");
  for (const std::string& one : options.list("slow")) read_slow(one, ranks, compute);
  simulation.numerics = options.flag("numerics", true);
  if (!simulation.numerics && simulation.measured)
    throw UsageError(
        "sim: numerics=off computes nothing, so say how long a step takes: step=100ms or "
        "profile=FILE");
}

Options options_of(const std::string& spec) {
  const std::string kind = cluster_kind(spec);
  if (kind == "netns") return {spec, kNetnsKeys};
  std::vector<std::string_view> keys(std::begin(kNetworkKeys), std::end(kNetworkKeys));
  keys.insert(keys.end(), std::begin(kComputeKeys), std::end(kComputeKeys));
  if (kind == "local") keys.clear();
  return {spec, keys};
}

}  // namespace

double ComputeTime::of(int rank, double share, Rng& random) const {
  const auto found = slow.find(rank);
  const double factor = found == slow.end() ? 1 : found->second;
  // A step never takes less than a tenth of its usual time, however unlucky the draw.
  const double luck = jitter > 0 ? std::max(0.1, 1 + jitter * random.normal()) : 1;
  return step_s * factor * luck * share;
}

std::optional<CodingRate> Simulation::coding_of(std::string_view compressor) const {
  const auto found = std::ranges::find(coding, compressor, &CodingRate::compressor);
  if (found != coding.end()) return *found;
  if (!must_know_coding) return {};
  std::vector<std::string_view> known;
  for (const CodingRate& rate : coding) known.push_back(rate.compressor);
  throw UsageError(fmt::format(
      "sim: the profile of coding=… has no rates of {}, and has those of {}: measure it with "
      "lockstep train --compress {} --profile-out",
      compressor, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), compressor));
}

std::span<const ClusterRow> clusters() { return kClusters; }
std::span<const std::string_view> network_keys() { return kNetworkKeys; }

std::string cluster_kind(const std::string& spec) {
  return std::string(row_named("cluster", Options::name_in(spec), kClusters).name);
}

SimulatedCluster network_from(const Options& options) {
  SimulatedCluster cluster;
  cluster.ranks_per_host = positive(options, "ranks_per_host", cluster.ranks_per_host);
  cluster.bandwidth_bytes_per_s =
      options.bytes_per_second("bandwidth", cluster.bandwidth_bytes_per_s);
  // What headers leave of a line: 0.956 for TCP in frames of 1514 bytes.
  const double payload = options.number("payload", 1);
  if (!(payload > 0 && payload <= 1))
    throw UsageError(
        fmt::format("{}: payload is the share of the bandwidth that headers leave, above 0 and at "
                    "most 1, e.g. payload=0.956 for TCP, not {}",
                    options.name(), payload));
  cluster.bandwidth_bytes_per_s *= payload;
  cluster.latency_s = options.seconds("latency", cluster.latency_s);
  const std::string topology = options.text("topology", "star");
  if (Options::name_in(topology) == "tree") {
    const Options tree(topology, kTopologyKeys);
    cluster.oversubscription = tree.number("oversubscription", 1);
    cluster.hosts_per_rack = positive(tree, "hosts_per_rack", 4);
  } else if (topology != "star") {
    throw_unknown("topology", topology, kTopologies);
  }
  return cluster;
}

NetnsOptions netns_from(const std::string& spec) {
  const Options options = options_of(spec);
  NetnsOptions netns;
  netns.ranks_per_host = positive(options, "ranks_per_host", 1);
  netns.bandwidth_bits_per_s = 8 * options.bytes_per_second("bandwidth", 0);
  return netns;
}

int ranks_in(const std::string& spec, int asked, int otherwise) {
  if (cluster_kind(spec) == "local") return asked ? asked : otherwise;
  const Options options = options_of(spec);
  const int per_host = positive(options, "ranks_per_host", 1);
  if (!options.has("hosts")) return asked ? asked : std::max(otherwise, per_host);
  const int hosts = positive(options, "hosts", 1);
  if (asked && asked != hosts * per_host)
    throw UsageError(
        fmt::format("{} ranks and {} hosts of {} ({} in all) can't both be: leave one of them out",
                    asked, hosts, per_host, hosts * per_host));
  return hosts * per_host;
}

Simulation simulation_from(const std::string& spec, int ranks, std::uint64_t seed, int guests) {
  const Options options = options_of(spec);
  Simulation simulation;
  simulation.cluster = network_from(options);
  simulation.cluster.ranks = ranks_in(spec, ranks, ranks) + guests;
  simulation.cluster.guests = guests;
  simulation.cluster.seed = seed;
  read_compute(options, ranks, simulation);
  simulation.cluster.hollow_windows = !simulation.numerics;
  check(simulation.cluster);
  return simulation;
}

}  // namespace lockstep
