#include "cli/training.h"

#include <torch/version.h>
#include <unistd.h>

#include "bench/pipes.h"
#include "cli/delivery.h"
#include "cli/fetch.h"
#include "cli/interrupt.h"
#include "cli/program_source.h"
#include "cli/train_worlds.h"
#include "cluster/child.h"
#include "measure/machine.h"
#include "strategies/registry.h"
#include "train/checkpoint.h"
#include "train/files.h"
#include "train/json_text.h"
#include "train/torch_learner.h"

namespace lockstep {
namespace {

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
  return facts;
}

}  // namespace

void keep(const TrainConfig& config, const WorkerOutcome& outcome, const RunFolder& folder) {
  if (!config.profile_out.empty())
    write_whole(config.profile_out, json_text(to_json(outcome.profile), 1) + "\n");
  folder.write_result(summary(config, outcome.result));
}

Training::Training(TrainConfig config, const TrainFlags& flags, std::optional<Start> start)
    : hosts_(flags.hosts()),
      start_(std::move(start)),
      experiment_(std::move(config), fetch_data),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      view_(flags.json() ? err_ : out_,
            experiment_.config.ends_by_epochs() ? experiment_.config.epochs : 0, flags.tells()) {
  // What was opened, and not what was asked for, is what workers and a resumed run open again.
  experiment_.config.data = experiment_.data.spec;
  parameters_ = experiment_.hollow() ? experiment_.hollow_parameters
                                     : parameter_count(*network_for(experiment_));
}

void Training::announce(const std::vector<std::string>& notices) {
  for (const std::string& notice : notices) view_.notice(notice);
  for (const std::string& notice : experiment_.notices()) view_.notice(notice);
  if (experiment_.simulation && experiment_.simulation->measured) measure_step();
}

Json Training::plan() const {
  return {{"config", to_json(experiment_.config)}, {"facts", facts_of(experiment_, parameters_)}};
}

int Training::run(bool json) {
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

void Training::measure_step() {
  experiment_.simulation->compute.step_s = measured_step_s(experiment_);
  view_.notice(fmt::format("a step takes {:.1f} ms here; say step={:.1f}ms to repeat this run",
                           1e3 * experiment_.simulation->compute.step_s,
                           1e3 * experiment_.simulation->compute.step_s));
}

// Of several processes that another launcher started, one does.
bool Training::keeps_records() const { return !start_ || start_->rank == 0; }

void Training::make_folder() {
  if (experiment_.config.threads == 0) {
    const int cores = this_machine().cores, threads = experiment_.threads(cores);
    view_.notice(fmt::format("{} thread{} a worker, of {} core{}; other threads give other bits",
                             threads, threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s"));
  }
  owner_.emplace(experiment_.config.out);
  RunFolder::create(experiment_.config, facts_of(experiment_, parameters_));
}

int Training::launch(const RunFolder& folder, std::string& verdict) {
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
  if (end.status != 0) write_end(folder, end.told_to_stop != 0 ? "stopped" : "failed", verdict);
  return end.status;
}

void Training::write_end(const RunFolder& folder, const std::string& how, std::string reason) {
  const std::string newest = newest_checkpoint(folder.path());
  if (!newest.empty()) {
    reason += fmt::format("; the newest checkpoint is {}", newest);
    view_.notice(fmt::format("go on with: lockstep train --resume {}", folder.path()));
  }
  failure_ = {{"schema_version", 1}, {"status", how}, {"reason", reason}};
  folder.write_failure(how, reason);
}

// All that are left have ended well, but whoever kept the records was lost before it was done.
int Training::no_result(const RunFolder& folder, const std::string& verdict) {
  const std::string reason =
      "no rank wrote the run's result" + (verdict.empty() ? "" : ": " + verdict);
  err_.say(fmt::format("lockstep: {}\n", reason));
  write_end(folder, "failed", reason);
  return 1;
}

void Training::hurry() {
  constexpr double kSeconds = 1;  // for a reader of our last words, once we were told to stop
  out_.hurry(kSeconds);
  err_.hurry(kSeconds);
}

int Training::here(const RunFolder& folder) {
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

void Training::run_ranks(const WorkerOptions& options) const {
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

}  // namespace lockstep
