// What a session leaves behind: checkpoints on the way, and its result.
#include <algorithm>
#include <set>

#include "train/gather.h"
#include "train/session.h"

namespace lockstep {

void Session::save(std::uint64_t taken) {
  recorder_.settle(present());
  std::vector<Blob> blobs = learner_->state();
  const std::string progress = log_.text(
      clock_, {luck_.state(), strategy_->state(), moved_.exchanged(), moved_.other(),
               recorder_.elapsed_s(), recorder_.waited_for(), contributions(), end_.asks_at()});
  blobs.push_back({"weights", learner_->replica().weights().bytes()});
  for (const Kept& kept : strategy_->memories())
    blobs.push_back({"strategy-" + kept.name, kept.values.bytes()});
  blobs.push_back({"progress", {progress.data(), progress.size()}});
  const nlohmann::ordered_json about = {{"step", taken},
                                        {"parameters", replica_.weights().count()},
                                        {"data_sha256", experiment.data_sha256},
                                        {"model_sha256", experiment.model_sha256},
                                        {"config", to_json(config_)}};
  const SavedCheckpoint saved =
      save_checkpoint(rank_.peers, options_.folder->checkpoint(taken), about, blobs, config_.keep);
  // A full disk is no reason to lose what is being trained: an older checkpoint is still there.
  if (!saved.failure.empty() && watcher())
    watcher()->notice(
        fmt::format("the checkpoint after step {} was not kept, the run goes on without it: {}",
                    taken, saved.failure));
  if (!saved.set_aside.empty() && watcher())
    watcher()->notice(
        fmt::format("this run went back to an earlier checkpoint, so later ones of the course that "
                    "it left are set aside: {}; remove them, or go on from one by --resume",
                    fmt::join(saved.set_aside, ", ")));
  line_up();
}

std::uint64_t Session::restore() {
  const Checkpoint checkpoint(config_.resume);
  const int r = rank_.rank();
  checkpoint.read(r, "weights", learner_->replica().weights().bytes());
  strategy_->begin(replica_);
  for (const Kept& kept : strategy_->memories())
    checkpoint.read(r, "strategy-" + kept.name, kept.values.bytes());
  learner_->restore(checkpoint, r);
  restore_progress(checkpoint.read(r, "progress"), checkpoint.path_of(r, "progress"));
  // Where the end is another one now it is asked for at once.
  if (config_from(checkpoint.about().at("config")).seconds == config_.seconds)
    end_.restore(before_.asks_at);
  moved_.restore(before_.exchanged, before_.other);
  return checkpoint.step();
}

void Session::restore_progress(const std::string& text, const std::string& path) try {
  before_ = log_.restore(text, clock_);
  const auto ranks = std::ssize(before_.waited.by_rank);
  if (ranks > 0 && ranks != rank_.size())
    throw UsageError(fmt::format("it is of {} ranks, and there are {}", ranks, rank_.size()));
  luck_.restore(before_.luck);
  strategy_->restore(before_.strategy);
} catch (const UsageError& e) {
  throw UsageError(fmt::format("{}: {}", path, e.what()));
}

void Session::write(const Model& model) {
  if (!leads()) return;
  if (options_.folder) options_.folder->make_room_for_model();
  model_sha256_ = save_model(
      *learner_, model, options_.folder ? options_.folder->model() : std::string(), config_.audit);
}

WorkerOutcome Session::finish() {
  WorkerOutcome outcome{{}, profiler_.profile(config_, experiment), leads()};
  TrainResult& result = outcome.result;
  result.model_sha256 = model_sha256_;
  // Who dies now has done its part, and where others can do without it, they do.
  std::set<int> gone;
  std::set<int>* const tolerated = experiment.in_step() ? nullptr : &gone;
  recorder_.finish(present(), tolerated);
  for (const std::string& text : gather_texts(present(), to_json(report()).dump(), tolerated))
    if (!text.empty()) result.ranks.push_back(nlohmann::ordered_json::parse(text));
  if (leads()) add_waits(result);
  std::vector<SampleCurve> curves;
  for (const std::vector<double>& row : rows_at_first(present(), log_.curve().numbers(), tolerated))
    if (!row.empty()) curves.push_back(SampleCurve::from(row));
  result.steady = steady_rate(curves);
  // File names can be of any bytes, and JSON is UTF-8.
  const std::string damaged = nlohmann::json(learner_->damaged())
                                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const std::string& text : gather_texts(present(), damaged, tolerated))
    if (!text.empty())
      for (const auto& file : nlohmann::json::parse(text)) result.damaged.insert(file);
  for (const int r : gone) lost_.push_back(present().job_rank(r));
  std::ranges::sort(lost_);
  log_.complete(result);
  std::ranges::sort(result.ranks, {},
                    [](const auto& rank) { return rank["rank"].template get<int>(); });
  if (!experiment.strategy.goes_in_rounds()) result.count_samples();
  if (experiment.strategy.exchange == Exchange::collective)
    result.collective = chosen_collective().name;
  result.lost = lost_;
  result.steps = last_step_;
  if (!experiment.in_step() && experiment.has_open_end()) result.count_steps();
  result.compute_variance_s2 = clock_.spent().variance_s2;
  result.data = experiment.data.name;
  result.simulated = experiment.simulation.has_value();
  result.split_s = experiment.split_s;
  const int cores = experiment.cores;
  result.oversubscribed = !result.simulated && config_.ranks() * experiment.threads(cores) > cores;
  return outcome;
}

void Session::add_waits(TrainResult& result) {
  for (nlohmann::ordered_json& rank : result.ranks) {
    const WaitedFor::Share& share = recorder_.waited_for().by_rank[rank["rank"].get<int>()];
    rank["waited_for_steps"] = share.steps;
    rank["waited_for_seconds"] = share.seconds;
  }
  result.straggler = recorder_.straggler();
}

Contributions Session::contributions() const {
  Contributions all = before_.contributions;
  return all += figures_of(*strategy_).contributions;
}

RankReport Session::report() {
  RankReport report{rank_.rank(),
                    crew_.works(),
                    host_name(),
                    log_.taken(),
                    log_.own_samples(),
                    clock_.training_s(),
                    clock_.spent(),
                    moved_.exchanged(),
                    moved_.other().bytes_sent,
                    {},
                    recorder_.peaks(),
                    contributions(),
                    {},
                    figures_of(*strategy_).sends};
  if (!experiment.in_step() && crew_.works() && crew_.servers == 0) report.mass = strategy_->mass();
  if (!experiment.simulation) report.usage = usage_since(used_, rank_.clock.now() - started_);
  return report;
}

std::string Session::host_name() const {
  return experiment.simulation ? fmt::format("host{}", rank_.peers.host_of(rank_.rank()))
                               : this_machine().host;
}

}  // namespace lockstep
