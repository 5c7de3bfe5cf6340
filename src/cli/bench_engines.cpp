#include "cli/bench_engines.h"

#include <filesystem>

#include "bench/forked_engine.h"
#include "bench/pattern.h"
#include "cli/joined_engine.h"
#include "cli/launched.h"
#include "cli/our_participant.h"
#include "cli/spawned.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using bench::Engine;
using bench::PipedEngine;
using bench::Work;

// Above this much memory in all, simulated values are hollow and `wrong` is unknown.
constexpr std::size_t kMostSimulatedBytes = 256 << 20;

std::string program_beside_me(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

std::string peer_program(const std::string& name) {
  const std::string path = program_beside_me(name + "_engine");
  if (!std::filesystem::exists(path))
    throw UsageError(fmt::format("engine {} is not installed: run make bench", name));
  return path;
}

// Runs the work on ranks inside this process.
using World = std::function<void(const Body&)>;
bench::Result measure_in(const World& world, int ranks, bench::OurParticipant::World kind,
                         const Work& work) {
  std::vector<bench::Result> results(ranks);
  world([&](Rank& rank) {
    bench::OurParticipant me(rank, kind);
    results[rank.rank()] = bench::measure(work, me);
  });
  return bench::join(results);
}

bench::Result simulate(SimulatedCluster cluster, const Work& work) {
  const bool hollow = work.bytes * cluster.ranks > kMostSimulatedBytes ||
                      cluster.ranks > bench::most_ranks(work.type);
  cluster.hollow_windows = hollow;
  using Kind = bench::OurParticipant::World;
  return measure_in([&](const Body& body) { run_simulated(cluster, body); }, cluster.ranks,
                    hollow ? Kind::hollow : Kind::simulated, work);
}

LaunchOptions launch_options(const BenchPlan& plan, std::vector<std::string> command) {
  LaunchOptions options;
  options.workers = plan.ranks;
  options.command = std::move(command);
  options.transport = plan.transport;
  options.netns = plan.netns;
  options.listen = plan.listen;
  options.key_file = plan.key_file;
  options.grace_seconds = 1;
  return options;
}

std::unique_ptr<Engine> our_engine(const BenchPlan& plan, int interrupt,
                                   const std::string& temporary) {
  if (plan.simulated)
    return std::make_unique<bench::ForkedEngine>(
        "lockstep", interrupt,
        [cluster = *plan.simulated](const Work& work) { return simulate(cluster, work); });
  if (plan.transport == "loopback")
    return std::make_unique<bench::ForkedEngine>(
        "lockstep", interrupt, [ranks = plan.ranks](const Work& work) {
          return measure_in([&](const Body& body) { run_loopback(ranks, body); }, ranks,
                            bench::OurParticipant::World::real, work);
        });
  if (plan.start) return std::make_unique<JoinedEngine>(*plan.start);
  return std::make_unique<PipedEngine>(
      "lockstep", plan.ranks, temporary, interrupt, [&](const std::string& pipes) {
        const std::vector<std::string> command{"", "bench-worker", "--pipes", pipes};
        return std::make_unique<Launched>(launch_options(plan, command));
      });
}

std::unique_ptr<Engine> openmpi_engine(const BenchPlan& plan, int interrupt,
                                       const std::string& temporary) {
  const std::string program = peer_program("openmpi");
  return std::make_unique<PipedEngine>(
      "openmpi", plan.ranks, temporary, interrupt, [&](const std::string& pipes) {
        return std::make_unique<Spawned>(
            std::vector<std::string>{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                                     std::to_string(plan.ranks), program, pipes});
      });
}

std::unique_ptr<Engine> gloo_engine(const BenchPlan& plan, int interrupt,
                                    const std::string& temporary) {
  const std::string program = peer_program("gloo"),
                    interface = plan.netns ? NetnsHosts::kIface : "lo";
  return std::make_unique<PipedEngine>(
      "gloo", plan.ranks, temporary, interrupt, [&](const std::string& pipes) {
        return std::make_unique<Launched>(launch_options(plan, {program, pipes, pipes, interface}));
      });
}

}  // namespace

Engines start_engines(const BenchPlan& plan, int interrupt, const std::string& temporary) {
  Engines engines;
  for (const std::string& peer : plan.against) peer_program(peer);  // before anything is started
  const auto start = [&](auto make) {
    return engines.all.emplace_back(make(plan, interrupt, temporary)).get();
  };
  Engine* ours = start(our_engine);
  for (const std::string& collective : plan.collectives)
    engines.contenders.push_back({ours, collective, plan.transport, true});
  for (const std::string& peer : plan.against) {
    const bool gloo = peer == "gloo";
    engines.contenders.push_back(
        {start(gloo ? gloo_engine : openmpi_engine), "default", gloo ? "tcp" : "default"});
  }
  return engines;
}

}  // namespace lockstep
