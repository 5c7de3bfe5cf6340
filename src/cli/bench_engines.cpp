#include "cli/bench_engines.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>

#include "bench/engine.h"
#include "bench/pattern.h"
#include "cli/bench_participant.h"
#include "cli/interrupt.h"
#include "cluster/child.h"
#include "cluster/job.h"
#include "cluster/launch.h"
#include "collectives/gather.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

// Our engine when another launcher (mpirun, srun, torchrun, two shells) started the ranks: this
// process is one of them, and all run the same bench with the same flags.
class JoinedEngine : public bench::Engine {
 public:
  // Joins the job; see cluster/job.h.
  explicit JoinedEngine(const Start& start) : job_(start) {}
  ~JoinedEngine() override {
    if (!failed_) job_.leave();
  }

  const std::string& name() const override { return name_; }
  // Collective. On rank 0 the results of all ranks joined, on the others their own.
  bench::Result measure(const bench::Work& work) override try {
    Transport& peers = job_.rank().peers;
    bench::OurParticipant me(job_.rank(), bench::OurParticipant::World::real);
    const bench::Result mine = bench::measure(work, me);
    const std::vector<std::string> lines = gather_texts(peers, to_line(mine));
    if (peers.rank() != 0) return mine;
    std::vector<bench::Result> all{mine};
    for (int r = 1; r < peers.size(); ++r) all.push_back(bench::result_from(lines[r]));
    return bench::join(all);
  } catch (const std::exception& error) {
    failed_ = true;
    job_.fail(error);
    throw;
  }

 private:
  const std::string name_ = "lockstep";
  bool failed_ = false;
  Job job_;
};

// To see that the bench has gone, and to take network namespaces down.
constexpr std::chrono::milliseconds kLeave{5000};
constexpr std::chrono::milliseconds kVerdict{5000};  // to notice a death and end the others

// Processes started by our launcher, on this machine or in network namespaces, as the crew of an
// engine.
class LaunchedCrew : public bench::Crew {
 public:
  // Throws what Launch throws. The launcher may be the one that sees Ctrl-C: then it passes it on
  // to the Interrupt of this process.
  explicit LaunchedCrew(const LaunchOptions& options) {
    std::promise<void> promise;
    std::future<void> started = promise.get_future();
    verdict_ =
        std::async(std::launch::async, [this, options, promise = std::move(promise)]() mutable {
          try {
            launch_.emplace(options);
          } catch (...) {
            promise.set_exception(std::current_exception());
            return bench::Verdict();
          }
          promise.set_value();
          const int status = launch_->wait();
          if (launch_->told_to_stop() != 0 && !stopping_)
            Interrupt::request(launch_->told_to_stop());
          return bench::Verdict{launch_->verdict(), status};
        });
    started.get();
  }

  // They should be leaving by now; those that are not are stopped.
  ~LaunchedCrew() override {
    const bool left = verdict_.wait_for(kLeave) == std::future_status::ready;
    stopping_ = true;
    if (!left) launch_->stop();
    verdict_.wait();
  }

  bench::Verdict verdict() override {
    const bool known = verdict_.wait_for(kVerdict) == std::future_status::ready;
    return known ? verdict_.get() : bench::Verdict();
  }

 private:
  // The launcher wants a thread that outlives its workers. This one ends with the verdict.
  std::optional<Launch> launch_;
  std::atomic<bool> stopping_ = false;
  std::shared_future<bench::Verdict> verdict_;
};

constexpr double kLeaveSeconds = 0.5;    // to see that the bench has gone
constexpr double kTerminateSeconds = 3;  // to act on SIGTERM
constexpr double kVerdictSeconds = 5;    // to notice a death and end the others

// Signals as a new process expects them, a group of its own, no input, output to stderr.
struct Attributes {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  Attributes() {
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  }
  ~Attributes() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

// A program that starts the workers itself, such as mpirun, as the crew of an engine.
class SpawnedCrew : public bench::Crew {
 public:
  // Found on PATH; in a process group of its own, its input empty and its output to our stderr.
  // InternalError if it can't be started.
  explicit SpawnedCrew(std::vector<std::string> words) : program_(words.at(0)) {
    const Attributes how;
    const int error = posix_spawnp(&pid_, program_.c_str(), &how.files, &how.attributes,
                                   pointers_to(words).data(), environ);
    if (error != 0)
      throw InternalError(fmt::format("can't start {}: {}", program_, std::strerror(error)));
    handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  }

  // It should be leaving by now; if not it is terminated, and killed if that does not help.
  ~SpawnedCrew() override {
    if (!ended_within(kLeaveSeconds)) {
      kill(-pid_, SIGTERM);
      if (!ended_within(kTerminateSeconds)) kill(-pid_, SIGKILL);
    }
    ended_within(kTerminateSeconds);
    close(handle_);
  }

  bench::Verdict verdict() override {
    if (!ended_within(kVerdictSeconds) || status_ == 0) return {};
    return {fmt::format("{} {}", program_, ending_text(status_)), shell_status(status_)};
  }

 private:
  bool ended_within(double seconds) {
    pollfd handle{handle_, POLLIN, 0};
    if (!ended_ && poll(&handle, 1, static_cast<int>(seconds * 1000)) == 1)
      ended_ = waitpid(pid_, &status_, 0) == pid_;
    return ended_;
  }

  const std::string program_;
  pid_t pid_ = -1;
  int handle_ = -1;  // readable when it has ended
  int status_ = 0;
  bool ended_ = false;
};

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
        return std::make_unique<LaunchedCrew>(launch_options(plan, command));
      });
}

std::unique_ptr<Engine> openmpi_engine(const BenchPlan& plan, int interrupt,
                                       const std::string& temporary) {
  const std::string program = peer_program("openmpi");
  return std::make_unique<PipedEngine>(
      "openmpi", plan.ranks, temporary, interrupt, [&](const std::string& pipes) {
        return std::make_unique<SpawnedCrew>(
            std::vector<std::string>{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                                     std::to_string(plan.ranks), program, pipes});
      });
}

std::unique_ptr<Engine> gloo_engine(const BenchPlan& plan, int interrupt,
                                    const std::string& temporary) {
  const std::string program = peer_program("gloo"),
                    interface = plan.netns ? NetnsHosts::kIface : "lo";
  return std::make_unique<
      PipedEngine>("gloo", plan.ranks, temporary, interrupt, [&](const std::string& pipes) {
    return std::make_unique<LaunchedCrew>(launch_options(plan, {program, pipes, pipes, interface}));
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
