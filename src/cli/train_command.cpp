// lockstep train
#include <torch/version.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "bench/pipes.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/train_flags.h"
#include "cli/train_view.h"
#include "cli/train_worlds.h"
#include "cli/version.h"
#include "cluster/child.h"
#include "cluster/job.h"
#include "cluster/output.h"
#include "cluster/start.h"
#include "compression/registry.h"
#include "core/json_text.h"
#include "core/whole_file.h"
#include "measure/machine.h"
#include "replica/network.h"
#include "strategies/registry.h"
#include "train/checkpoint.h"
#include "train/replay.h"
#include "train/trainer.h"

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
  lockstep train --resume runs/RUN
  lockstep train -n 4 --strategy ad-psgd --record arrivals
  lockstep train --replay arrivals                to the bit, on processes
  RANK=1 WORLD_SIZE=2 lockstep train --join 10.0.0.1:29500 --key-file job.key
)";

using Json = nlohmann::ordered_json;

Json facts_of(const Experiment& experiment, std::size_t parameters) {
  Json facts = {{"lockstep", LOCKSTEP_VERSION},
                {"commit", program_commit()},
                {"libtorch", TORCH_VERSION},
                {"strategy", full_spec(experiment.config.strategy)},
                {"data", experiment.data.name},
                {"parameters", parameters},
                {"steps", experiment.has_open_end() ? Json(nullptr) : Json(experiment.steps)},
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
    parameters_ = experiment_.hollow() ? experiment_.hollow_parameters()
                                       : parameter_count(*network_for(experiment_));
  }

  // Says what is to be known before it starts, `notices` among it.
  void announce(const std::vector<std::string>& notices) {
    for (const std::string& notice : notices) view_.notice(notice);
    for (const std::string& notice : experiment_.notices()) view_.notice(notice);
    if (experiment_.simulation && experiment_.simulation->measured) measure_step();
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
    fmt::print("{}\n", json_text(training.plan(), 1));
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
