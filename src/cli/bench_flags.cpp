#include "cli/bench_flags.h"

#include <algorithm>

#include "bench/pattern.h"
#include "cli/bench_push_pull.h"
#include "collectives/all_reduce.h"
#include "core/names.h"
#include "core/options.h"
#include "core/units.h"
#include "train/cluster_spec.h"

namespace lockstep {
namespace {

constexpr const char* kExamples = R"(
Sizes: K, M, G and KiB, MiB, GiB are powers of 1024; KB, MB, GB are powers of 1000. The largest size
is always measured. Every result is verified: #wrong counts bad elements. Engines take turns in each
repeat, so the ratio between two of them holds on a busy machine.

Examples:
  lockstep bench allreduce -n 4 -b 4K -e 100M -f 10
  lockstep bench allreduce -n 2 -b 100M -e 100M --against openmpi,gloo
  lockstep bench allreduce -n 8 --collectives all --transport loopback --json
  lockstep bench allreduce -n 64 --cluster sim:bandwidth=10Gbps,latency=50us
  lockstep bench allreduce --cluster netns:hosts=2,bandwidth=1Gbps --against gloo
  lockstep bench p2p --transport shm -b 8 -e 16M -f 4
  lockstep bench pushpull -n 2 --servers 4 -b 100M -e 100M
  mpirun -n 4 lockstep bench allreduce --key-file job.key
  RANK=1 WORLD_SIZE=2 lockstep bench allreduce --join 10.0.0.1:29500 --key-file job.key
)";

constexpr int kMostRanks = 4096;
constexpr std::string_view kTransports[] = {"auto", "shm", "ucx", "loopback", "simulated"};
constexpr std::string_view kPeers[] = {"gloo", "openmpi"};

std::size_t size_from(const std::string& flag, const std::string& text) try {
  return parse_size(text);
} catch (const UsageError& e) {
  throw UsageError(fmt::format("{}: {}", flag, e.what()));
}

int workers_from(const BenchFlags& flags, int least, int otherwise) {
  return flags.ranks.empty() ? otherwise : parse_integer("-n", flags.ranks, least, kMostRanks);
}

// Of a cluster: workers, and servers beside them.
int ranks_from(const BenchPlan& plan, const BenchFlags& flags, int least, int ranks_per_host) {
  const int servers = plan.work.servers;
  const int asked = flags.ranks.empty() ? 0 : workers_from(flags, least, 0) + servers;
  return ranks_in(flags.cluster, asked, std::max(2 + servers, ranks_per_host));
}

void read_simulated(BenchPlan& plan, const BenchFlags& flags, int least) {
  const Options options(flags.cluster == "local" ? "sim" : flags.cluster, network_keys());
  SimulatedCluster& cluster = plan.simulated.emplace(network_from(options));
  cluster.ranks = plan.ranks = ranks_from(plan, flags, least, cluster.ranks_per_host);
  check(cluster);
}

void read_netns(BenchPlan& plan, const BenchFlags& flags, int least) {
  NetnsOptions& netns = plan.netns.emplace(netns_from(flags.cluster));
  plan.ranks = ranks_from(plan, flags, least, netns.ranks_per_host);
  if (plan.ranks % netns.ranks_per_host != 0)
    throw UsageError(
        fmt::format("{} ranks do not fill hosts of {} ranks", plan.ranks, netns.ranks_per_host));
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
  if (!flags.ranks.empty() && flags.ranks != std::to_string(plan.start->size - plan.work.servers))
    throw UsageError(fmt::format("-n is {}, but the launcher started {} ranks: leave -n out",
                                 flags.ranks, plan.start->size));
  plan.ranks = plan.start->size;
  if (flags.transport == "shm" || flags.transport == "ucx") plan.start->transport = flags.transport;
}

void read_place(BenchPlan& plan, const BenchFlags& flags, int least) {
  const std::string cluster = cluster_kind(flags.cluster);
  index_named("transport", flags.transport, kTransports);
  plan.transport = flags.transport == "auto" && cluster == "sim" ? "simulated" : flags.transport;
  if ((cluster == "sim" && plan.transport != "simulated") ||
      (cluster == "netns" && (plan.transport == "simulated" || plan.transport == "loopback")))
    throw UsageError(
        fmt::format("--transport {} does not work over --cluster {}", plan.transport, cluster));
  if (plan.transport == "simulated") return read_simulated(plan, flags, least);
  if (cluster == "netns") return read_netns(plan, flags, least);
  if (plan.transport != "loopback") read_start(plan, flags);
  if (plan.start) return;
  plan.ranks = workers_from(flags, least, 2) + plan.work.servers;
}

// Servers of `pushpull`, and what their strategies can do.
void read_servers(BenchPlan& plan, const BenchFlags& flags) {
  if (plan.work.operation != bench::Operation::pushpull) return;
  plan.work.servers = parse_integer("--servers", flags.servers, 1, kMostRanks);
  if (plan.work.type != Type::fp32)
    throw UsageError(
        fmt::format("servers hold fp32, not {}: leave --type out", name_of(plan.work.type)));
}

// Numbers grow with every push.
void check_rounds(const BenchPlan& plan) {
  const std::int64_t most = bench::most_ranks(plan.work.type);
  const std::int64_t rounds = plan.work.warmup + plan.work.iterations;
  if (plan.work.operation == bench::Operation::pushpull && rounds * plan.ranks > most)
    throw UsageError(
        fmt::format("fp32 holds the servers' numbers exactly for up to {} rounds of {} ranks, not "
                    "{}: use a smaller -i",
                    most / plan.ranks, plan.ranks, rounds));
}

// Virtual time does not vary, so there one round says it all.
void read_counts(BenchPlan& plan, const BenchFlags& flags) {
  const auto count = [&](const char* flag, const std::string& text, int real, int simulated,
                         int least) {
    if (text.empty()) return plan.simulated ? simulated : real;
    return parse_integer(flag, text, least, 1'000'000);
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
  if (plan.work.operation == bench::Operation::pushpull) {
    for (const std::string_view name : cut_at_commas(flags.strategies))
      plan.collectives.push_back(bench::pushing_strategy(std::string(name)));
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
  for (const std::string_view name : cut_at_commas(flags.collectives))
    plan.collectives.emplace_back(all_reduce_named(name).name);
}

void read_peers(BenchPlan& plan, const BenchFlags& flags) {
  if (flags.against.empty()) return;
  if (plan.work.operation == bench::Operation::pushpull)
    throw UsageError("--against has no engine with servers: leave it out of `bench pushpull`");
  for (const std::string_view name : cut_at_commas(flags.against)) plan.against.emplace_back(name);
  for (const std::string& name : plan.against) index_named("engine", name, kPeers);
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

BenchFlags::BenchFlags(CLI::App& bench) {
  bench.require_subcommand(1);
  add(bench, "allreduce", "Time all-reduce, by collective and size")
      ->add_option("--collectives", collectives,
                   "Names from `lockstep list collectives`, separated by commas, or all")
      ->capture_default_str();
  p2p_ = add(bench, "p2p", "Time messages between ranks 0 and 1: latency and one-way stream");
  pushpull_ = add(bench, "pushpull", "Time pushes of a vector to servers, and pulls of it");
  pushpull_->add_option("--servers", servers, "Ranks that serve, beside those of -n")
      ->capture_default_str();
  pushpull_
      ->add_option("--strategies", strategies,
                   "parameter-server, asp: the code that pushes, separated by commas")
      ->capture_default_str();
}

CLI::App* BenchFlags::add(CLI::App& bench, const std::string& name,
                          const std::string& description) {
  CLI::App* operation = bench.add_subcommand(name, description);
  const auto option = [&](const char* flag, std::string& value, const char* text) {
    operation->add_option(flag, value, text)->capture_default_str();
  };
  operation->add_option("-n,--workers", ranks, "Ranks (also -np); 2 unless the cluster says more");
  option("-b", first, "Smallest size in bytes");
  option("-e", last, "Largest size in bytes");
  option("-f", factor, "Each size is so many times the one before");
  operation->add_option("-w", warmup, "Iterations before the timed ones (5; simulated 0)");
  operation->add_option("-i", iterations, "Timed iterations (20; simulated 1)");
  operation->add_option("--repeats", repeats, "Turns of each engine at each size (5; simulated 1)");
  option("--type", type, "fp32, fp64, fp16, bf16, int32 or int64");
  option("--transport", transport,
         "auto, shm, ucx, loopback (threads) or simulated (virtual time)");
  option("--cluster", cluster, "local, sim:key=value,... or netns:key=value,...");
  operation->add_option("--against", against, "Other engines to compare with: gloo, openmpi");
  const auto for_hosts = [&](const char* flag, std::string& value, const char* text) {
    operation->add_option(flag, value, text)->group("Many hosts");
  };
  for_hosts("--listen", hosts.listen, "ADDR[:PORT] where the job is joined");
  for_hosts("--join", hosts.join, "ADDR:PORT where rank 0 listens");
  for_hosts("--key-file", hosts.key_file, "The job key: 32 bytes, mode 0600");
  for_hosts("--iface", hosts.iface, "Interface between hosts: a name or a CIDR");
  operation->add_flag("--json", json, "JSON lines on stdout, everything else on stderr");
  operation->footer(kExamples);
  return operation;
}

BenchPlan BenchFlags::plan() const {
  const auto operation = p2p_->parsed()        ? bench::Operation::p2p
                         : pushpull_->parsed() ? bench::Operation::pushpull
                                               : bench::Operation::allreduce;
  BenchPlan plan;
  plan.json = json;
  plan.work.operation = operation;
  plan.work.type = type_named(type);
  plan.sizes =
      bench::sizes_between(size_from("-b", first), size_from("-e", last),
                           parse_integer("-f", factor, 2, 1'000'000), size_of(plan.work.type));
  read_servers(plan, *this);
  const int least = operation == bench::Operation::p2p ? 2 : 1;
  read_place(plan, *this, least);
  if (plan.ranks < least + plan.work.servers)
    throw UsageError(
        fmt::format("{} ranks are too few: `bench {}` needs at least {}, servers included",
                    plan.ranks, name_of(operation), least + plan.work.servers));
  if (plan.ranks > bench::most_ranks(plan.work.type) && !plan.simulated)
    throw UsageError(
        fmt::format("{} holds the test values' sum exactly for up to {} ranks, not {}: use fp32",
                    name_of(plan.work.type), bench::most_ranks(plan.work.type), plan.ranks));
  read_counts(plan, *this);
  check_rounds(plan);
  read_collectives(plan, *this);
  read_peers(plan, *this);
  return plan;
}

}  // namespace lockstep
