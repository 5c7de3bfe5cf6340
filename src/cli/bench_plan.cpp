#include "cli/bench_plan.h"

#include <algorithm>

#include "bench/pattern.h"
#include "bench/work.h"
#include "cli/flags.h"
#include "collectives/all_reduce.h"
#include "core/names.h"
#include "core/options.h"
#include "core/units.h"
#include "train/cluster_spec.h"

namespace lockstep {
namespace {

constexpr int kMostRanks = 4096;
constexpr std::string_view kTransports[] = {"auto", "shm", "ucx", "loopback", "simulated"};
constexpr std::string_view kPeers[] = {"gloo", "openmpi"};

void require_one_of(std::string_view kind, const std::string& name,
                    std::span<const std::string_view> valid) {
  if (std::ranges::find(valid, name) == valid.end()) throw_unknown(kind, name, valid);
}

std::size_t size_from(const std::string& flag, const std::string& text) try {
  return parse_size(text);
} catch (const UsageError& e) {
  throw UsageError(fmt::format("{}: {}", flag, e.what()));
}

int ranks_from(const BenchFlags& flags, int least, int otherwise) {
  const int asked = flags.ranks.empty() ? 0 : count_from("-n", flags.ranks, least, kMostRanks);
  return ranks_in(flags.cluster, asked, otherwise);
}

void read_simulated(BenchPlan& plan, const BenchFlags& flags, int least) {
  const Options options(flags.cluster == "local" ? "sim" : flags.cluster, network_keys());
  SimulatedCluster& cluster = plan.simulated.emplace(network_from(options));
  cluster.ranks = plan.ranks = ranks_from(flags, least, std::max(2, cluster.ranks_per_host));
  check(cluster);
}

void read_netns(BenchPlan& plan, const BenchFlags& flags, int least) {
  NetnsOptions& netns = plan.netns.emplace(netns_from(flags.cluster));
  plan.ranks = ranks_from(flags, least, std::max(2, netns.ranks_per_host));
  if (plan.ranks % netns.ranks_per_host != 0)
    throw UsageError(
        fmt::format("-n {} does not fill hosts of {} ranks", plan.ranks, netns.ranks_per_host));
  netns.hosts = plan.ranks / netns.ranks_per_host;
}

// Started by another launcher: it decides how many ranks there are, and only we are measured.
void read_start(BenchPlan& plan, const BenchFlags& flags) {
  plan.start = start_from(environment_with(flags.hosts));
  if (!plan.start) {
    if (!flags.hosts.join.empty())
      throw UsageError(
          "--join joins ranks that another launcher started: set RANK and WORLD_SIZE for each");
    plan.listen = flags.hosts.listen;
    plan.key_file = flags.hosts.key_file;
    return;
  }
  if (flags.cluster != "local" || !flags.against.empty())
    throw UsageError(
        fmt::format("another launcher started this process as rank {} of {}: --cluster and "
                    "--against start processes of their own, leave them out",
                    plan.start->rank, plan.start->size));
  if (!flags.ranks.empty() && flags.ranks != std::to_string(plan.start->size))
    throw UsageError(fmt::format("-n is {}, but the launcher started {} ranks: leave -n out",
                                 flags.ranks, plan.start->size));
  plan.ranks = plan.start->size;
  if (flags.transport == "shm" || flags.transport == "ucx") plan.start->transport = flags.transport;
}

void read_place(BenchPlan& plan, const BenchFlags& flags, int least) {
  const std::string cluster = cluster_kind(flags.cluster);
  require_one_of("transport", flags.transport, kTransports);
  plan.transport = flags.transport == "auto" && cluster == "sim" ? "simulated" : flags.transport;
  if ((cluster == "sim" && plan.transport != "simulated") ||
      (cluster == "netns" && (plan.transport == "simulated" || plan.transport == "loopback")))
    throw UsageError(
        fmt::format("--transport {} does not work over --cluster {}", plan.transport, cluster));
  if (plan.transport == "simulated") return read_simulated(plan, flags, least);
  if (cluster == "netns") return read_netns(plan, flags, least);
  if (plan.transport != "loopback") read_start(plan, flags);
  if (plan.start) return;
  plan.ranks = flags.ranks.empty() ? 2 : count_from("-n", flags.ranks, least, kMostRanks);
}

// Virtual time does not vary, so there one round says it all.
void read_counts(BenchPlan& plan, const BenchFlags& flags) {
  const auto count = [&](const char* flag, const std::string& text, int real, int simulated,
                         int least) {
    if (text.empty()) return plan.simulated ? simulated : real;
    return count_from(flag, text, least, 1'000'000);
  };
  plan.work.warmup = count("-w", flags.warmup, 5, 0, 0);
  plan.work.iterations = count("-i", flags.iterations, 20, 1, 1);
  plan.repeats = count("--repeats", flags.repeats, 5, 1, 1);
}

void read_collectives(BenchPlan& plan, const BenchFlags& flags) {
  if (plan.work.operation == bench::Operation::p2p) {
    plan.collectives = {"messages"};
    return;
  }
  if (flags.collectives == "all") {
    // `shared` needs all ranks on one host.
    const bool one_host =
        plan.netns ? plan.netns->hosts == 1 : !plan.simulated || plan.simulated->hosts() == 1;
    for (const AllReduceRow& row : all_reduces())
      if (one_host || row.name != "shared") plan.collectives.emplace_back(row.name);
    return;
  }
  for (const std::string& name : list_from(flags.collectives))
    plan.collectives.emplace_back(all_reduce_named(name).name);
}

void read_peers(BenchPlan& plan, const BenchFlags& flags) {
  if (flags.against.empty()) return;
  plan.against = list_from(flags.against);
  for (const std::string& name : plan.against) require_one_of("engine", name, kPeers);
  if (plan.simulated)
    throw UsageError(
        "--against measures real time, which --transport simulated does not: leave one out");
  if (plan.netns && std::ranges::find(plan.against, "openmpi") != plan.against.end())
    throw UsageError("--against openmpi does not work over --cluster netns: use --against gloo");
  const Type type = plan.work.type;
  if (type == Type::fp16 || type == Type::bf16)
    throw UsageError(fmt::format("{} have no {}: with --against use fp32, fp64, int32 or int64",
                                 flags.against, name_of(type)));
}

}  // namespace

BenchPlan plan_from(const BenchFlags& flags, bench::Operation operation) {
  BenchPlan plan;
  plan.json = flags.json;
  plan.work.operation = operation;
  plan.work.type = type_named(flags.type);
  plan.sizes =
      bench::sizes_between(size_from("-b", flags.first), size_from("-e", flags.last),
                           count_from("-f", flags.factor, 2, 1'000'000), size_of(plan.work.type));
  read_place(plan, flags, operation == bench::Operation::p2p ? 2 : 1);
  if (plan.ranks > bench::most_ranks(plan.work.type) && !plan.simulated)
    throw UsageError(
        fmt::format("{} holds the test values' sum exactly for up to {} ranks, not {}: use fp32",
                    name_of(plan.work.type), bench::most_ranks(plan.work.type), plan.ranks));
  read_counts(plan, flags);
  read_collectives(plan, flags);
  read_peers(plan, flags);
  return plan;
}

}  // namespace lockstep
