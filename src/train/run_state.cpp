#include "train/run_state.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "collectives/gather.h"
#include "core/error.h"
#include "core/json_text.h"

namespace lockstep {
namespace {

nlohmann::ordered_json json_of(const Traffic& t) {
  return {t.bytes_sent, t.messages_sent, t.bytes_received, t.messages_received};
}

Traffic traffic_from(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), json.at(3)};
}

}  // namespace

void ProgressLog::loss(double mean, std::size_t samples, bool counts) {
  last_loss_ = mean;
  loss_sum_ += mean * static_cast<double>(samples);
  if (counts) loss_samples_ += static_cast<double>(samples);
}

void ProgressLog::stepped(const Step& step, std::size_t own_samples, double training_s) {
  ++taken_;
  epoch_ = step.epoch;
  samples_ += std::accumulate(step.samples.begin(), step.samples.end(), std::uint64_t{0});
  own_samples_ += own_samples;
  curve_.add(own_samples, training_s);
  training_s_ = training_s;
}

Progress ProgressLog::progress(std::uint64_t steps) const {
  return {taken_,
          steps,
          epoch_,
          last_loss_,
          samples_ - samples_before_,
          training_s_ - training_before_s_};
}

std::vector<double> ProgressLog::totals(std::uint64_t bytes_sent) {
  std::vector<double> mine{loss_sum_, loss_samples_, static_cast<double>(bytes_sent)};
  loss_sum_ = loss_samples_ = 0;
  return mine;
}

Score ProgressLog::score_from(const std::vector<double>& totals, std::uint64_t taken,
                              bool ends_epoch, double training_s) {
  Score score;
  score.steps = taken;
  score.ends_epoch = ends_epoch;
  score.training_s = training_s;
  score.train_loss = totals[1] > 0 ? totals[0] / totals[1] : 0;
  score.bytes = static_cast<std::uint64_t>(totals[2]);
  return score;
}

void ProgressLog::complete(TrainResult& result) const {
  result.samples = samples_;
  result.scores = scores_;
  result.seconds_by_epoch = seconds_by_epoch_;
}

std::string ProgressLog::text(const StepClock& clock, const Saved& saved) const {
  nlohmann::ordered_json scores = nlohmann::ordered_json::array();
  for (const Score& score : scores_) scores.push_back(to_json(score));
  const Spent& spent = clock.spent();
  return nlohmann::ordered_json{
      {"taken", taken_},
      {"samples", samples_},
      {"own_samples", own_samples_},
      {"curve", curve_.numbers()},
      {"epoch", epoch_},
      {"loss_sum", loss_sum_},
      {"loss_samples", loss_samples_},
      {"scores", scores},
      {"seconds_by_epoch", seconds_by_epoch_},
      {"epoch_start_s", epoch_start_s_},
      {"training_s", clock.training_s()},
      {"spent",
       {spent.compute_s, spent.communicate_s, spent.wait_s, spent.variance_s2, spent.hidden_s,
        spent.stalled_s}},
      {"luck", saved.luck},
      {"strategy", saved.strategy},
      {"exchanged", json_of(saved.exchanged)},
      {"other", json_of(saved.other)},
      {"elapsed_s", saved.elapsed_s},
      {"waited", to_json(saved.waited)},
      {"contributions",
       {saved.contributions.staleness, saved.contributions.weight, saved.contributions.count}},
      {"asks_at", saved.asks_at}}
      .dump();
}

ProgressLog::Saved ProgressLog::restore(const std::string& text, StepClock& clock) try {
  const auto json = json_in<nlohmann::json>(text);
  taken_ = json.at("taken");
  samples_ = samples_before_ = json.at("samples");
  own_samples_ = json.at("own_samples");
  curve_ = SampleCurve::from(json.at("curve").get<std::vector<double>>());
  epoch_ = json.at("epoch");
  loss_sum_ = json.at("loss_sum");
  loss_samples_ = json.at("loss_samples");
  for (const auto& score : json.at("scores")) scores_.push_back(score_from_json(score));
  seconds_by_epoch_ = json.at("seconds_by_epoch").get<std::vector<double>>();
  epoch_start_s_ = json.at("epoch_start_s");
  training_s_ = training_before_s_ = json.at("training_s");
  const auto spent = json.at("spent").get<std::vector<double>>();
  clock.restore(training_s_, {spent.at(0), spent.at(1), spent.at(2), spent.at(3), spent.at(4),
                              spent.size() > 5 ? spent[5] : 0});
  return {json.at("luck"),
          json.at("strategy"),
          traffic_from(json.at("exchanged")),
          traffic_from(json.at("other")),
          json.at("elapsed_s"),
          stragglers_from(json.at("waited")),
          {json.at("contributions").at(0), json.at("contributions").at(1),
           json.at("contributions").at(2)},
          json.value("asks_at", std::uint64_t{0})};
} catch (const nlohmann::json::exception&) {
  throw UsageError("it is damaged, or not what a run has come to");
} catch (const std::out_of_range&) {
  throw UsageError("it is damaged: it has fewer numbers than there should be");
}

Contributions Trainee::contributions(const RunState& state) const {
  Contributions all = state.before.contributions;
  return all += figures_of(strategy).contributions;
}

Checkpoints::Checkpoints(const Trainee& trainee, MeteredRank& metered, Recorder& recorder,
                         Timetable& timetable)
    : trainee_(trainee), metered_(metered), recorder_(recorder), timetable_(timetable) {}

void Checkpoints::save(const Generation& members, RunState& state, std::uint64_t taken) {
  recorder_.settle(members.present());
  std::vector<Blob> blobs = trainee_.learner.state();
  const Values weights = trainee_.replica.weights();
  const std::string progress = state.log.text(
      state.clock, {state.luck.state(), trainee_.strategy.state(), metered_.exchanged(),
                    metered_.other(), recorder_.elapsed_s(), recorder_.waited_for(),
                    trainee_.contributions(state), timetable_.asks_at()});
  blobs.push_back({"weights", weights.bytes()});
  for (const Kept& kept : trainee_.strategy.memories())
    if (kept.in_checkpoints) blobs.push_back({"strategy-" + kept.name, kept.values.bytes()});
  blobs.push_back({"progress", {progress.data(), progress.size()}});
  const TrainConfig& config = trainee_.experiment.config;
  const nlohmann::ordered_json about = {{"step", taken},
                                        {"parameters", weights.count()},
                                        {"data_sha256", trainee_.experiment.data_sha256},
                                        {"model_sha256", trainee_.experiment.model_sha256},
                                        {"config", to_json(config)}};
  const SavedCheckpoint saved = save_checkpoint(
      trainee_.rank.peers, trainee_.options.folder->checkpoint(taken), about, blobs, config.keep);
  Watcher* const watcher = members.leads() ? trainee_.options.watcher : nullptr;
  // A full disk is no reason to lose what is being trained: an older checkpoint is still there.
  if (!saved.failure.empty() && watcher)
    watcher->notice(
        fmt::format("the checkpoint after step {} was not kept, the run goes on without it: {}",
                    taken, saved.failure));
  if (!saved.set_aside.empty() && watcher)
    watcher->notice(
        fmt::format("this run went back to an earlier checkpoint, so later ones of the course that "
                    "it left are set aside: {}; remove them, or go on from one by --resume",
                    fmt::join(saved.set_aside, ", ")));
  line_up(members);
}

std::uint64_t Checkpoints::restore(RunState& state) {
  const TrainConfig& config = trainee_.experiment.config;
  const Checkpoint checkpoint(config.resume);
  const int r = trainee_.rank.rank();
  checkpoint.read(r, "weights", trainee_.replica.weights().bytes());
  trainee_.strategy.begin(trainee_.replica);
  for (const Kept& kept : trainee_.strategy.memories())
    if (kept.in_checkpoints) checkpoint.read(r, "strategy-" + kept.name, kept.values.bytes());
  trainee_.learner.restore(checkpoint, r);
  restore_progress(state, checkpoint.read(r, "progress"), checkpoint.path_of(r, "progress"));
  // Where the end is another one now it is asked for at once.
  if (config_from(checkpoint.about().at("config")).seconds == config.seconds)
    timetable_.restore(state.before.asks_at);
  metered_.restore(state.before.exchanged, state.before.other);
  return checkpoint.step();
}

void Checkpoints::restore_progress(RunState& state, const std::string& text,
                                   const std::string& path) try {
  state.before = state.log.restore(text, state.clock);
  const auto ranks = std::ssize(state.before.waited.by_rank);
  if (ranks > 0 && ranks != trainee_.rank.size())
    throw UsageError(
        fmt::format("it is of {} ranks, and there are {}", ranks, trainee_.rank.size()));
  state.luck.restore(state.before.luck);
  trainee_.strategy.restore(state.before.strategy);
} catch (const UsageError& e) {
  throw UsageError(fmt::format("{}: {}", path, e.what()));
}

void Checkpoints::line_up(const Generation& members) const {
  if (!trainee_.experiment.simulation) return;
  Clock& clock = trainee_.rank.clock;
  // The second exchange starts when the first has ended on all, so it takes no longer than the
  // first took from when all had started it.
  const auto latest = [&] {
    double most = 0;
    for (const auto& row : all_rows(members.present(), {clock.now()}))
      most = std::max(most, row[0]);
    return most;
  };
  const double all_started = latest(), all_ended = latest();
  const double line = all_ended + 2 * (all_ended - all_started);
  if (const double now = clock.now(); now < line) clock.charge(line - now);
}

}  // namespace lockstep
