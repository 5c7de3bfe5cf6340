#include "cli/train_worlds.h"

#include <torch/torch.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/interrupt.h"
#include "cli/train_view.h"
#include "cli/version.h"
#include "cluster/child.h"
#include "cluster/job.h"
#include "cluster/launch.h"
#include "collectives/gather.h"
#include "measure/machine.h"
#include "replica/malloc.h"
#include "strategies/audit/audit.h"
#include "train/replay.h"
#include "transport/decorators/conditions.h"
#include "transport/fabric.h"
#include "transport/simulated/simulated.h"

namespace lockstep {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

WorkerOutcome train_under(Rank& rank, const Experiment& experiment, const WorkerOptions& options,
                          const Sleep& sleep, const Faulty::Die& die = {}) {
  const TrainConfig& config = experiment.config;
  Conditioned conditioned(rank, conditions_from(config.faults, config.shape, config.ranks()), sleep,
                          die);
  return train_repeatably(conditioned.rank(), experiment, options, program_facts());
}

// Where ranks that share this process stop: after as many steps as the one that is furthest has
// begun, which none of them has passed.
class StopPoint {
 public:
  bool reached(std::uint64_t taken, bool told) {
    const std::lock_guard lock(mutex_);
    if (told && !at_) at_ = std::max(begun_, taken);
    if (at_ && taken >= *at_) return true;
    begun_ = std::max(begun_, taken + 1);
    return false;
  }
  std::function<bool(std::uint64_t)> asked_with(const std::function<bool()>& stopped) {
    return [this, stopped](std::uint64_t taken) { return reached(taken, stopped && stopped()); };
  }

 private:
  std::mutex mutex_;
  std::uint64_t begun_ = 0;
  std::optional<std::uint64_t> at_;
};

// All ranks in this process: `run` runs a body as each of them, and each sleeps by `sleep_of` it.
// Where the others can go on without one that a fault kills, they do.
WorkerOutcome train_all(const Experiment& experiment, WorkerOptions options,
                        const std::function<Sleep(Rank&)>& sleep_of,
                        const std::function<void(const Body&)>& run) {
  set_up_process(experiment, 0, 1);
  StopPoint stop;
  options.stopped_after = stop.asked_with(options.stopped);
  WorkerOutcome leaders{{}, {}, false};
  run([&](Rank& rank) {
    try {
      WorkerOutcome mine = train_under(rank, experiment, options, sleep_of(rank));
      if (mine.leads) leaders = std::move(mine);
    } catch (const RankKilled&) {
      if (!experiment.strategy.goes_on()) throw;
    }
  });
  // The one that led may have been killed when all others were gone already.
  if (!leaders.leads) throw Error("the rank that kept the run's records was lost at its end");
  return leaders;
}

// A replay has no use for ranks that go on without one that has failed.
bool goes_on(const TrainConfig& config) {
  return config.strategy_row().goes_on() && config.replay.empty();
}

constexpr double kStopSeconds = 60;  // to take a step to its end and write a checkpoint

}  // namespace

bool stops_with_checkpoint(const TrainConfig& config) { return config.checkpoint_every > 0; }

void set_up_process(const Experiment& experiment, int rank, int ranks) {
  keep_freed_memory();
  const int cores = this_machine().cores;
  const int threads = experiment.threads(cores);
  torch::set_num_threads(threads);
  // Only where the run has the machine to itself: two runs that each bind would share a core.
  if (threads == 1 && ranks == cores) bind_to_core(rank, ranks);
}

WorkerOutcome train_simulated(const Experiment& experiment, WorkerOptions options) {
  const auto charging = [](Rank& rank) -> Sleep {
    return [&rank](double seconds) { rank.clock.charge(seconds); };
  };
  return train_all(experiment, std::move(options), charging,
                   [&](const Body& body) { run_simulated(experiment.simulation->cluster, body); });
}

WorkerOutcome train_in_threads(const Experiment& experiment, WorkerOptions options) {
  std::mutex turn;
  options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
  FabricOptions fabric;
  fabric.seed = experiment.config.seed;
  return train_all(
      experiment, std::move(options), [](Rank&) -> Sleep { return sleep_for; },
      [&](const Body& body) { run_loopback(experiment.config.ranks(), body, fabric); });
}

WorkerOutcome train_as_rank(
    const Start& start, const Experiment& experiment, WorkerOptions options,
    const std::function<void(const WorkerOutcome&, const RunFolder&)>& keep) {
  const int cores = this_machine().cores;
  set_up_process(experiment, start.rank, start.launcher_pid != 0 ? start.size : cores + 1);
  options.own_process = true;
  JobOptions job_options;
  job_options.seed = experiment.config.seed;
  job_options.goes_on = goes_on(experiment.config);
  Job job(start, job_options);
  try {
    // Processes that work a name out by themselves come to different ones.
    const RunFolder folder(text_of_first(job.rank().peers, options.folder->path()));
    options.folder = &folder;
    WorkerOutcome outcome =
        train_under(job.rank(), experiment, options, sleep_for, [] { raise(SIGKILL); });
    if (outcome.leads) keep(outcome, folder);
    job.leave();
    return outcome;
  } catch (const Stopped& e) {
    if (stops_with_checkpoint(experiment.config))
      job.leave();  // all stop, after the same step
    else
      job.fail(e);
    throw;
  } catch (const AuditError& e) {
    job.fail(e, true);
    throw;
  } catch (const std::exception& e) {
    job.fail(e);
    throw;
  }
}

LaunchedEnd train_launched(const TrainConfig& config, const HostFlags& hosts, int threads,
                           Output& out, Output& err, Watcher& watcher,
                           const std::function<void()>& make_folder) {
  LaunchOptions options;
  options.workers = config.ranks();
  options.guests = config.guests();
  options.goes_on = goes_on(config);
  options.command = {"", "train-worker", config.out};
  options.threads_per_worker = threads;
  options.transport = config.transport;
  options.listen = hosts.listen;
  options.key_file = hosts.key_file;
  options.before_start = make_folder;
  options.out = &out;
  options.err = &err;
  if (stops_with_checkpoint(config)) options.stop_seconds = kStopSeconds;
  if (!hosts.iface.empty()) options.environment.emplace_back("LOCKSTEP_IFACE", hosts.iface);
  if (cluster_kind(config.cluster) == "netns") {
    options.netns = netns_from(config.cluster);
    const int per_host = options.netns->ranks_per_host;
    options.netns->hosts = (config.ranks() - config.guests() + per_host - 1) / per_host;
  }
  options.on_output = [&](int rank, std::string_view line) {
    if (!hear(line, watcher)) err.pass_on(fmt::format("[{}] {}\n", rank, line));
  };
  Launch launch(options);
  // From here on the launch takes signals itself; nobody has acted on one that came before.
  if (const int signal = Interrupt::last_signal()) launch.stop(signal);
  const int status = launch.wait();
  if (launch.told_to_stop() == 0 && launch.all_exited_with(kStoppedStatus))
    return {status, SIGTERM, fmt::format("a worker was told to stop by {}", signal_text(SIGTERM))};
  return {status, launch.told_to_stop(), launch.verdict()};
}

double measured_step_s(const Experiment& simulated) {
  TrainConfig config = simulated.config;
  config.cluster = "local";
  config.workers = 1;
  config.servers = 0;
  config.strategy = "all-reduce";
  config.collective = "auto";
  config.compress.clear();
  config.overlap = "none";
  config.buckets.clear();
  config.batch = simulated.full_batch(0);
  config.global_batch = 0;
  config.steps = 8;
  config.samples = 0;
  config.seconds = 0;
  config.test_limit = 1;
  config.audit = false;
  config.resume.clear();
  config.record.clear();
  config.replay.clear();
  config.faults.clear();
  config.shape.clear();
  config.threads = simulated.threads(simulated.cores);
  const Experiment alone(config, {});
  return train_in_threads(alone, {}).profile.step_s();
}

}  // namespace lockstep
