#include "cli/train_command.h"

#include <torch/version.h>

#include <filesystem>

#include "bench/lines.h"
#include "cli/fetch.h"
#include "cli/interrupt.h"
#include "cli/train_view.h"
#include "cli/train_worlds.h"
#include "measure/machine.h"
#include "strategies/registry.h"
#include "train/checkpoint.h"
#include "train/files.h"
#include "train/resume.h"
#include "train/torch_learner.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(
Examples:
  lockstep train                                  mnist-cnn on MNIST, 2 workers, all-reduce
  lockstep train -n 4 --strategy step-wise --epochs 3
  lockstep train --strategy parameter-server --servers 2 --server-placement colocated
  lockstep train --strategy local-sgd:period=8 --audit
  lockstep train --model resnet20 --data cifar10:DIR --optimizer sgd:lr=0.1,momentum=0.9
  lockstep train --model FILE.pt --data arrays:DIR
  lockstep train -n 24 --cluster sim:bandwidth=10Gbps,latency=50us,step=100ms,slow=rank3:2.0
  lockstep train -n 256 --model vgg16 --data synthetic:shape=3x224x224,classes=1000 --steps 100 \
      --cluster sim:numerics=off,step=300ms
  lockstep train --resume runs/RUN
  RANK=1 WORLD_SIZE=2 lockstep train --join 10.0.0.1:29500 --key-file job.key
)";

// A folder of its own for each run, with a name that says what it was.
std::string free_folder(const TrainConfig& config) {
  const auto name_in = [](const std::string& spec) {
    return fs::path(std::string(Options::name_in(spec))).stem().string();
  };
  const std::string name = fmt::format("runs/{}-{}-{}w-seed{}", name_in(config.model),
                                       name_in(config.strategy), config.workers, config.seed);
  std::string free = name;
  for (int i = 2; fs::exists(free); ++i) free = fmt::format("{}-{}", name, i);
  return free;
}

Json facts_of(const Experiment& experiment, std::size_t parameters) {
  Json facts = {{"lockstep", LOCKSTEP_VERSION},
                {"libtorch", TORCH_VERSION},
                {"strategy", full_spec(experiment.config.strategy)},
                {"data", experiment.data.name},
                {"parameters", parameters},
                {"steps", experiment.steps},
                {"threads_per_worker", experiment.threads(this_machine().cores)}};
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
  return facts;
}

void write_profile(const TrainConfig& config, const Profile& profile) {
  if (!config.profile_out.empty()) write_whole(config.profile_out, to_json(profile).dump(1) + "\n");
}

// One run, from its configuration to its summary.
class Training {
 public:
  Training(TrainConfig config, const TrainFlags& flags, std::optional<Start> start)
      : hosts_(flags.hosts()),
        start_(std::move(start)),
        experiment_(std::move(config), fetch_mnist),
        view_(flags.json() ? stderr : stdout,
              experiment_.config.steps ? 0 : experiment_.config.epochs, flags.tells()) {
    // What was opened, and not what was asked for, is what workers and a resumed run open again.
    experiment_.config.data = experiment_.data.spec;
    parameters_ = experiment_.hollow() ? experiment_.hollow_parameters
                                       : parameter_count(*network_for(experiment_));
  }

  void announce() {
    for (const std::string& notice : experiment_.notices()) view_.notice(notice);
    if (experiment_.simulation && experiment_.simulation->measured) measure_step();
  }

  Json plan() const {
    return {{"config", to_json(experiment_.config)}, {"facts", facts_of(experiment_, parameters_)}};
  }

  // The exit status.
  int run(bool json) {
    const bool kept = !start_ || start_->rank == 0;
    const RunFolder folder =
        kept ? RunFolder::create(experiment_.config, facts_of(experiment_, parameters_))
             : RunFolder(experiment_.config.out);
    const bool processes =
        !start_ && !experiment_.simulation && experiment_.config.transport != "loopback";
    const int status = processes ? launch(folder) : here(folder);
    if (!kept) return status;
    const Json run = folder.read();
    if (run["result"].is_object() && status == 0) view_.summary(run["result"], folder.path());
    if (json) fmt::print("{}\n", summary_of(run).dump());
    return status;
  }

 private:
  void measure_step() {
    experiment_.simulation->compute.step_s = measured_step_s(experiment_);
    view_.notice(fmt::format("a step takes {:.1f} ms here; say step={:.1f}ms to repeat this run",
                             1e3 * experiment_.simulation->compute.step_s,
                             1e3 * experiment_.simulation->compute.step_s));
  }

  int launch(const RunFolder& folder) {
    std::string verdict;
    const int threads = experiment_.threads(this_machine().cores);
    const int status = train_launched(experiment_.config, hosts_, threads, view_, verdict);
    if (status == 0) return 0;
    const bool told = status == 130 || status == 143 || status == 129;
    const std::string newest = newest_checkpoint(folder.path());
    if (!newest.empty()) {
      verdict += fmt::format("; the newest checkpoint is {}", newest);
      view_.notice(fmt::format("go on with: lockstep train --resume {}", newest));
    }
    folder.write_failure(told ? "stopped" : "failed", verdict);
    return status;
  }

  int here(const RunFolder& folder) {
    const Interrupt interrupt;
    WorkerOptions options;
    options.watcher = &view_;
    options.folder = &folder;
    options.stopped = [&] { return interrupt.requested(); };
    try {
      const WorkerOutcome outcome = run_ranks(options);
      if (!outcome.leads) return 0;
      folder.write_result(summary(experiment_.config, outcome.result));
      write_profile(experiment_.config, outcome.profile);
      return 0;
    } catch (const Stopped&) {
      folder.write_failure("stopped", "stopped by a signal");
      throw bench::Interrupted();
    } catch (const std::exception& e) {
      folder.write_failure("failed", e.what());
      throw;
    }
  }

  WorkerOutcome run_ranks(const WorkerOptions& options) const {
    if (start_) return train_as_rank(*start_, experiment_, options);
    return experiment_.simulation ? train_simulated(experiment_, options)
                                  : train_in_threads(experiment_, options);
  }

  static Json summary_of(const Json& run) {
    if (run["result"].is_object()) return run["result"];
    return {{"schema_version", 1}, {"status", run["status"]}, {"reason", run.value("reason", "")}};
  }

  const HostFlags hosts_;
  std::optional<Start> start_;  // another launcher started us
  Experiment experiment_;
  TrainView view_;
  std::size_t parameters_ = 0;
};

}  // namespace

TrainCommand::TrainCommand(CLI::App& application)
    : command_(application.add_subcommand("train", "Train one network on N workers")),
      flags_(*command_) {
  command_->footer(kExamples);
}

TrainConfig TrainCommand::configured(const std::optional<Start>& start) const {
  const bool resumes = !flags_.resume().empty();
  TrainConfig base;
  if (resumes) base = config_of_checkpoint(flags_.resume());
  TrainConfig config = flags_.over(base);
  config.cache = cache_folder();
  config.resume = base.resume;
  if (resumes) check_resumable(base, config);
  complete(config);
  const int servers = config.ranks() - config.workers, hosted = servers - config.guests();
  if (!flags_.given("workers") && !resumes)
    config.workers = start ? start->size - servers
                           : ranks_in(config.cluster, 0, config.workers + hosted) - hosted;
  check(config);
  if (start && start->size != config.ranks())
    throw UsageError(fmt::format(
        "the launcher started {} ranks, but {} workers and {} servers need {}: leave --workers out",
        start->size, config.workers, config.servers, config.ranks()));
  if (start && cluster_kind(config.cluster) != "local")
    throw UsageError(
        fmt::format("another launcher started this process as rank {} of {}: leave "
                    "--cluster out, it starts processes of its own",
                    start->rank, start->size));
  if (config.out.empty()) config.out = free_folder(config);
  return config;
}

int TrainCommand::run() const {
  const auto start = start_from(environment_with(flags_.hosts()));
  if (!start && !flags_.hosts().join.empty())
    throw UsageError(
        "--join joins ranks that another launcher started: set RANK and WORLD_SIZE for each");
  Training training(configured(start), flags_, start);
  training.announce();
  if (!flags_.dry_run()) return training.run(flags_.json());
  fmt::print("{}\n", training.plan().dump(1));
  return 0;
}

TrainWorkerCommand::TrainWorkerCommand(CLI::App& application)
    : command_(application.add_subcommand("train-worker", "One rank of `lockstep train`")) {
  command_->add_option("folder", folder_)->required();
  command_->group("");  // not in --help
}

int TrainWorkerCommand::run() const {
  const auto start = start_from(environment_with({}));
  if (!start) throw UsageError("train-worker is started by lockstep train, not by hand");
  const RunFolder folder(folder_);
  const Experiment experiment(folder.config(), {});
  TellingWatcher watcher;
  WorkerOptions options;
  options.watcher = &watcher;
  options.folder = &folder;
  const WorkerOutcome outcome = train_as_rank(*start, experiment, options);
  if (!outcome.leads) return 0;
  folder.write_result(summary(experiment.config, outcome.result));
  write_profile(experiment.config, outcome.profile);
  return 0;
}

}  // namespace lockstep
