#include "cli/train_command.h"

#include <csignal>
#include <filesystem>

#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/train_view.h"
#include "cli/train_worlds.h"
#include "cli/training.h"
#include "cluster/job.h"
#include "train/cluster_spec.h"
#include "train/json_text.h"
#include "train/resume.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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

// It is written at the end, and should not fail then.
void check_profile_out(const std::string& file) {
  const fs::path path = file, folder = path.parent_path();
  if (fs::is_directory(path) || !(folder.empty() || fs::is_directory(folder)))
    throw UsageError(fmt::format("--profile-out {} must be a file in a folder that exists", file));
}

}  // namespace

TrainCommand::TrainCommand(CLI::App& application)
    : command_(application.add_subcommand("train", "Train one network on N workers")),
      flags_(*command_) {
  command_->footer(kExamples);
}

TrainConfig TrainCommand::configured(const std::optional<Start>& start,
                                     std::vector<std::string>* notices) const {
  const bool resumes = !flags_.resume().empty();
  TrainConfig base;
  if (resumes) {
    Resumable found = run_to_resume(flags_.resume());
    base = std::move(found.config);
    if (notices) *notices = std::move(found.notices);
  }
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
  if (start && config.transport == "loopback")
    throw UsageError(
        fmt::format("another launcher started this process as rank {} of {}: --transport loopback "
                    "has all ranks in one process; use auto, shm or ucx",
                    start->rank, start->size));
  if (cluster_kind(config.cluster) == "netns" && !flags_.hosts().iface.empty())
    throw UsageError("--iface: hosts of --cluster netns have one interface only; leave it out");
  if (!config.profile_out.empty() && (!start || start->rank == 0))
    check_profile_out(config.profile_out);
  config.out = config.out.empty() ? free_folder(config) : no_flag(config.out);
  return config;
}

int TrainCommand::run() const {
  auto start = start_from(environment_with(flags_.hosts()));
  if (!start && !flags_.hosts().join.empty())
    throw UsageError(
        "--join joins ranks that another launcher started: set RANK and WORLD_SIZE for each");
  std::vector<std::string> notices;
  TrainConfig config = configured(start, &notices);
  if (start && config.transport != "auto") start->transport = config.transport;
  Training training(std::move(config), flags_, start);
  training.announce(notices);
  if (!flags_.dry_run()) return training.run(flags_.json());
  fmt::print("{}\n", json_text(training.plan(), 1));
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

}  // namespace lockstep
