// lockstep train
#include <torch/torch.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/train_flags.h"
#include "cli/train_view.h"
#include "cli/version.h"
#include "cluster/child.h"
#include "cluster/job.h"
#include "cluster/launch.h"
#include "cluster/output.h"
#include "cluster/start.h"
#include "collectives/gather.h"
#include "compression/registry.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "measure/machine.h"
#include "replica/malloc.h"
#include "replica/network.h"
#include "strategies/audit/audit.h"
#include "strategies/registry.h"
#include "train/checkpoint.h"
#include "train/pipeline_forecast.h"
#include "train/replay.h"
#include "train/trainer.h"
#include "transport/decorators/conditions.h"
#include "transport/fabric.h"
#include "transport/simulated/simulated.h"

namespace lockstep {
namespace {

constexpr const char* kExamples = R"(
Examples:
  lockstep train                                  mnist-cnn on MNIST, 2 workers, all-reduce
  lockstep train -n 4 --strategy step-wise --epochs 3
  lockstep train --strategy parameter-server --servers 2 --server-placement colocated
  lockstep train --strategy local-sgd:period=8 --audit
  lockstep train -n 4 --strategy ssp:staleness=3 --cluster sim:step=100ms,slow=rank1:3.0
  lockstep train -n 4 --strategy gossip:p=0.1 --fault kill:rank=2,after=500
  lockstep train -n 10 --strategy epoch-average:give_up=60 --split class
  lockstep train --model resnet20 --data cifar10 --optimizer sgd:lr=0.1,momentum=0.9
  lockstep train --model FILE.pt --data arrays:DIR
  lockstep train -n 24 --cluster sim:bandwidth=10Gbps,latency=50us,step=100ms,slow=rank3:2.0
  lockstep train -n 256 --model vgg16 --data synthetic:shape=3x224x224,classes=1000 --steps 100 \
      --cluster sim:numerics=off,step=300ms
  lockstep train --pipeline 2:schedule=gpipe,microbatches=4 --replicas 2
  lockstep train --pipeline 4:schedule=1f1b,microbatches=8 --dry-run
  lockstep train --resume runs/RUN
  lockstep train -n 4 --strategy ad-psgd --record arrivals
  lockstep train --replay arrivals                to the bit, on processes
  RANK=1 WORLD_SIZE=2 lockstep train --join 10.0.0.1:29500 --key-file job.key
)";

// Where a training runs: on processes of ours, as a process of another launcher, as threads, or
// simulated. The ranks do the same in all of them: train/trainer.h.

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

// A training process sets up: threads of LibTorch, malloc, and a core of its own where all ranks
// have one. `rank` of so many on this machine, whatever hosts it pretends to be.
void set_up_process(const Experiment& experiment, int rank, int ranks) {
  keep_freed_memory();
  const int cores = this_machine().cores;
  const int threads = experiment.threads(cores);
  torch::set_num_threads(threads);
  // Only where the run has the machine to itself: two runs that each bind would share a core.
  if (threads == 1 && ranks == cores) bind_to_core(rank, ranks);
}

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

// Do ranks that are told to stop first take the same number of steps and write a checkpoint?
bool stops_with_checkpoint(const TrainConfig& config) { return config.checkpoint_every > 0; }

// Each returns what rank 0 came to, or throws what went wrong first.
WorkerOutcome train_simulated(const Experiment& experiment, WorkerOptions options) {
  const auto charging = [](Rank& rank) -> Sleep {
    return [&rank](double seconds) { rank.clock.charge(seconds); };
  };
  return train_all(experiment, std::move(options), charging, [&](const Body& body) {
    SimulatedCluster cluster = experiment.simulation->cluster;
    cluster.lanes = experiment.lanes();
    run_simulated(cluster, body);
  });
}

WorkerOutcome train_in_threads(const Experiment& experiment, WorkerOptions options) {
  std::mutex turn;
  options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
  FabricOptions fabric;
  fabric.seed = experiment.config.seed;
  fabric.lanes = experiment.lanes();
  return train_all(
      experiment, std::move(options), [](Rank&) -> Sleep { return sleep_for; },
      [&](const Body& body) { run_loopback(experiment.config.ranks(), body, fabric); });
}

// This process is the rank that `start` says. The run is kept where rank 0's `folder` is. On the
// rank that leads, `keep` gets what came of it before the rank leaves: one that leaves in good
// order has kept it.
WorkerOutcome train_as_rank(
    const Start& start, const Experiment& experiment, WorkerOptions options,
    const std::function<void(const WorkerOutcome&, const RunFolder&)>& keep) {
  const int cores = this_machine().cores;
  set_up_process(experiment, start.rank, start.launcher_pid != 0 ? start.size : cores + 1);
  options.own_process = true;
  JobOptions job_options;
  job_options.seed = experiment.config.seed;
  job_options.goes_on = goes_on(experiment.config);
  job_options.lanes = experiment.lanes();
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

// A worker process that stopped with all others, after a checkpoint, exits with this.
constexpr int kStoppedStatus = 128 + SIGTERM;
struct LaunchedEnd {
  int status = 0;        // the ranks' worst exit status
  int told_to_stop = 0;  // the signal, or 0
  std::string verdict;   // what went wrong
};
// Starts the ranks as processes, with the configuration in the run's folder, which `make_folder`
// makes when nothing can be refused any more, and passes on what they say. A signal that an
// Interrupt caught before the launch could stops it too.
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

// How long a step takes on this machine, alone. For simulations that don't say.
double measured_step_s(const Experiment& simulated) {
  const TrainConfig& asked = simulated.config;
  TrainConfig config;
  config.workers = 1;
  config.threads = simulated.threads(simulated.cores);
  config.model = asked.model;
  config.data = asked.data;
  config.limit = asked.limit;
  config.test_limit = 1;
  config.cache = asked.cache;
  config.batch = simulated.full_batch(0);
  config.optimizer = asked.optimizer;
  config.seed = asked.seed;
  config.steps = 8;
  const Experiment alone(config, {});
  return train_in_threads(alone, {}).profile.step_s();
}

using Json = nlohmann::ordered_json;

Json facts_of_pipelines(const Experiment& experiment) {
  const Pipelines& pipelines = *experiment.pipelines;
  const PipelineSchedule& schedule = pipelines.schedule;
  Json facts = {{"workers", schedule.workers},
                {"stages", schedule.stages},
                {"replicas", pipelines.count},
                {"blocks_by_stage", pipelines.cut},
                {"microbatches", schedule.micros},
                {"effective_batch", experiment.full_batch(0) * pipelines.count},
                {"forecast", nullptr}};
  if (const auto& forecast = experiment.forecast)
    facts["forecast"] = {{"step_seconds", forecast->plan.forecast.makespan_s},
                         {"bubble", forecast->plan.forecast.bubble()},
                         {"worker_bytes", forecast->plan.worker_bytes}};
  return facts;
}

Json facts_of(const Experiment& experiment, std::size_t parameters) {
  Json facts = {{"lockstep", LOCKSTEP_VERSION},
                {"commit", program_commit()},
                {"libtorch", TORCH_VERSION},
                {"strategy", full_spec(experiment.config.strategy)},
                {"data", experiment.data.name},
                {"parameters", parameters},
                {"steps", experiment.has_open_end() ? Json(nullptr) : Json(experiment.steps)},
                {"threads_per_worker", experiment.threads(this_machine().cores)}};
  if (experiment.pipelines) facts["pipeline"] = facts_of_pipelines(experiment);
  if (!experiment.simulation) return facts;
  const Simulation& simulation = *experiment.simulation;
  facts["compute"] = {{"step_seconds", simulation.compute.step_s},
                      {"measured_here", simulation.measured},
                      {"jitter", simulation.compute.jitter},
                      {"numerics", simulation.numerics}};
  if (simulation.profile) {
    const std::string profile = to_json(*simulation.profile).dump();
    facts["compute"]["profile_sha256"] = checksum({profile.data(), profile.size()});
  }
  if (const std::string& compress = experiment.config.compress; !compress.empty()) {
    const CodingRate rate =
        simulation.coding_of(full_compressor_spec(compress)).value_or(CodingRate{});
    facts["compute"]["encode_seconds_per_number"] = rate.encode_s_per_number;
    facts["compute"]["decode_seconds_per_number"] = rate.decode_s_per_number;
  }
  return facts;
}

// What came of a run, to its folder and to the profile that it was asked for. The result comes
// last: a run that has one has all that was asked of it.
void keep(const TrainConfig& config, const WorkerOutcome& outcome, const RunFolder& folder) {
  if (!config.profile_out.empty()) {
    Profile profile = outcome.profile;
    if (std::filesystem::exists(config.profile_out))
      add_rates(profile, read_profile(config.profile_out).coding);
    write_whole(config.profile_out, json_text(to_json(profile), 1) + "\n");
  }
  folder.write_result(summary(config, outcome.result));
}

// One run, from its configuration to its summary.
class Training {
 public:
  // `start`: another launcher started this process. UsageError for data or a model that can't be
  // opened.
  Training(TrainConfig config, const TrainFlags& flags, std::optional<Start> start)
      : hosts_(flags.hosts()),
        start_(std::move(start)),
        experiment_(std::move(config), fetch_data),
        out_(STDOUT_FILENO),
        err_(STDERR_FILENO),
        view_(flags.json() ? err_ : out_,
              experiment_.config.ends_by_epochs() ? experiment_.config.epochs : 0, flags.tells()) {
    // What was opened, and not what was asked for, is what workers and a resumed run open again.
    experiment_.config.data = experiment_.data.spec;
    // Such a cut was not looked at before; it is refused where it does not fit.
    if (experiment_.pipelines && !experiment_.config.memory_limit.empty()) forecast();
    parameters_ = experiment_.hollow() ? experiment_.hollow_parameters()
                                       : parameter_count(*network_for(experiment_));
  }

  // Says what is to be known before it starts, `notices` among it.
  void announce(const std::vector<std::string>& notices) {
    for (const std::string& notice : notices) view_.notice(notice);
    for (const std::string& notice : experiment_.notices()) view_.notice(notice);
    if (experiment_.simulation && experiment_.simulation->measured) measure_step();
    if (experiment_.forecast)
      view_.notice(
          fmt::format("the network is cut into stages of {} blocks", experiment_.config.balance));
  }

  // How the network is cut, and what a step should take; empty without a pipeline.
  std::string forecast() {
    if (!experiment_.pipelines) return {};
    if (!experiment_.forecast)
      experiment_.forecast =
          std::make_shared<const PipelineForecast>(forecast_pipelines(experiment_));
    return experiment_.forecast->in_words(experiment_.config.batch);
  }

  // What would run.
  Json plan() const {
    return {{"config", to_json(experiment_.config)}, {"facts", facts_of(experiment_, parameters_)}};
  }

  // The exit status.
  int run(bool json) {
    const RunFolder folder(experiment_.config.out);
    const bool processes =
        !start_ && !experiment_.simulation && experiment_.config.transport != "loopback";
    std::string verdict;
    int status = processes ? launch(folder, verdict) : here(folder);
    if (!keeps_records()) return status;
    if (status == 0 && !folder.read()["result"].is_object()) status = no_result(folder, verdict);
    // Of a run that failed run.json may tell how it had ended before.
    const Json result = status == 0 ? folder.read()["result"] : failure_;
    if (status == 0) view_.summary(result, folder.path());
    if (json) out_.say(json_text(result) + "\n");
    owner_.reset();  // the folder is as it will be, and readers may be slow
    return delivered(status, out_, err_, folder.path() + "/run.json");
  }

 private:
  void measure_step() {
    if (!experiment_.pipelines)  // whose blocks were measured
      experiment_.simulation->compute.step_s = measured_step_s(experiment_);
    view_.notice(fmt::format("a step takes {:.1f} ms here; say step={:.1f}ms to repeat this run",
                             1e3 * experiment_.simulation->compute.step_s,
                             1e3 * experiment_.simulation->compute.step_s));
  }

  // Of several processes that another launcher started, one does.
  bool keeps_records() const { return !start_ || start_->rank == 0; }

  void make_folder() {
    if (experiment_.config.threads == 0) {
      const int cores = this_machine().cores, threads = experiment_.threads(cores);
      view_.notice(fmt::format("{} thread{} a worker, of {} core{}; other threads give other bits",
                               threads, threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s"));
    }
    owner_.emplace(experiment_.config.out);
    RunFolder::create(experiment_.config, facts_of(experiment_, parameters_));
  }

  // Each returns the exit status. Until they do a signal only asks them to stop: run.json gets its
  // end.
  int launch(const RunFolder& folder, std::string& verdict) {
    const Interrupt interrupt;
    const int threads = experiment_.threads(this_machine().cores);
    bool made = false;
    LaunchedEnd end;
    try {
      end = train_launched(experiment_.config, hosts_, threads, out_, err_, view_,
                           [&] { make_folder(), made = true; });
    } catch (const std::exception& e) {
      if (made) write_end(folder, "failed", e.what());
      throw;
    }
    verdict = end.verdict;
    if (end.told_to_stop != 0) hurry();
    if (const TrainConfig& config = experiment_.config;
        !config.record.empty() && !discard_unless_whole(config) && end.status == 0)
      view_.notice(
          fmt::format("{} was not kept: a rank was lost before its part was whole", config.record));
    if (end.status != 0) write_end(folder, end.told_to_stop != 0 ? "stopped" : "failed", verdict);
    return end.status;
  }

  int here(const RunFolder& folder) {
    const Interrupt interrupt;
    if (keeps_records()) make_folder();
    WorkerOptions options;
    options.watcher = &view_;
    options.folder = &folder;
    options.stopped = [&] { return interrupt.requested(); };
    try {
      run_ranks(options);
      return 0;
    } catch (const Stopped&) {
      hurry();
      if (keeps_records())
        write_end(folder, "stopped", "told to stop by " + signal_text(Interrupt::last_signal()));
      throw bench::Interrupted();
    } catch (const std::exception& e) {
      if (keeps_records()) write_end(folder, "failed", e.what());
      throw;
    }
  }

  // All ranks that are left have ended well, but the one that kept the records was lost before it
  // was done.
  int no_result(const RunFolder& folder, const std::string& verdict) {
    const std::string reason =
        "no rank wrote the run's result" + (verdict.empty() ? "" : ": " + verdict);
    err_.say(fmt::format("lockstep: {}\n", reason));
    write_end(folder, "failed", reason);
    return 1;
  }

  // With where to go on from, if there is a checkpoint.
  void write_end(const RunFolder& folder, const std::string& how, std::string reason) {
    const std::string newest = newest_checkpoint(folder.path());
    if (!newest.empty()) {
      reason += fmt::format("; the newest checkpoint is {}", newest);
      view_.notice(fmt::format("go on with: lockstep train --resume {}", folder.path()));
    }
    failure_ = {{"schema_version", 1}, {"status", how}, {"reason", reason}};
    folder.write_failure(how, reason);
  }

  void run_ranks(const WorkerOptions& options) const {
    const auto keeps = [&](const WorkerOutcome& outcome, const RunFolder& folder) {
      keep(experiment_.config, outcome, folder);
    };
    if (start_)
      train_as_rank(*start_, experiment_, options, keeps);
    else
      keeps(experiment_.simulation ? train_simulated(experiment_, options)
                                   : train_in_threads(experiment_, options),
            *options.folder);
  }

  // Whatever told us to stop does not wait long for a slow reader of what we say.
  void hurry() {
    constexpr double kSeconds = 1;  // for a reader of our last words, once we were told to stop
    out_.hurry(kSeconds);
    err_.hurry(kSeconds);
  }

  const HostFlags hosts_;
  std::optional<Start> start_;
  Experiment experiment_;
  Output out_, err_;  // of this process
  TrainView view_;
  std::size_t parameters_ = 0;
  std::optional<RunOwner> owner_;
  nlohmann::ordered_json failure_;  // in place of a result
};

class TrainCommand : public Command {
 public:
  explicit TrainCommand(CLI::App& application)
      : Command(application.add_subcommand("train", "Train one network on N workers")),
        flags_(*command_) {
    command_->footer(kExamples);
  }

  int run() const override {
    auto start = start_from(environment_with(flags_.hosts()));
    if (!start && !flags_.hosts().join.empty())
      throw UsageError(
          "--join joins ranks that another launcher started: set RANK and WORLD_SIZE for each");
    std::vector<std::string> notices;
    TrainConfig config = flags_.configured(start, &notices);
    if (start && config.transport != "auto") start->transport = config.transport;
    Training training(std::move(config), flags_, start);
    training.announce(notices);
    if (!flags_.dry_run()) return training.run(flags_.json());
    const std::string forecast = training.forecast();
    fmt::print("{}\n", json_text(training.plan(), 1));
    if (!flags_.json()) fmt::print("{}", forecast);
    return 0;
  }

 private:
  TrainFlags flags_;
};

// lockstep train-worker FOLDER: one rank of a run. Started by `train`, not by people.
class TrainWorkerCommand : public Command {
 public:
  explicit TrainWorkerCommand(CLI::App& application)
      : Command(application.add_subcommand("train-worker", "One rank of `lockstep train`")) {
    command_->add_option("folder", folder_)->required();
    command_->group("");  // not in --help
  }

  int run() const override {
    const auto start = start_from(environment_with(HostFlags{}));
    if (!start) throw UsageError("train-worker is started by lockstep train, not by hand");
    follow_launcher(*start);
    const RunFolder folder(folder_);
    const Experiment experiment(folder.config(), {});
    TellingWatcher watcher;
    WorkerOptions options;
    options.watcher = &watcher;
    options.folder = &folder;
    std::optional<Interrupt> interrupt;
    if (stops_with_checkpoint(experiment.config)) {
      interrupt.emplace();
      options.stopped = [&] { return interrupt->requested(); };
    }
    try {
      train_as_rank(*start, experiment, options,
                    [&](const WorkerOutcome& outcome, const RunFolder& kept) {
                      keep(experiment.config, outcome, kept);
                    });
    } catch (const Stopped&) {
      return kStoppedStatus;  // the launcher, which told us to, has its own words for it
    }
    return 0;
  }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<Command> add_train(CLI::App& application) {
  return std::make_unique<TrainCommand>(application);
}

std::unique_ptr<Command> add_train_worker(CLI::App& application) {
  return std::make_unique<TrainWorkerCommand>(application);
}

}  // namespace lockstep
