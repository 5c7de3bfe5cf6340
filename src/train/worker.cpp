#include "train/worker.h"

#include <algorithm>
#include <cmath>

#include "collectives/barrier.h"
#include "collectives/broadcast.h"
#include "measure/machine.h"
#include "measure/metered.h"
#include "strategies/audit.h"
#include "strategies/registry.h"
#include "train/evaluate.h"
#include "train/gather.h"
#include "train/learner.h"
#include "train/moved.h"
#include "train/profiler.h"
#include "train/progress_log.h"
#include "train/recorder.h"
#include "transport/group.h"

namespace lockstep {
namespace {

constexpr Tag kInitial{Purpose::setup, 1};
constexpr Tag kTogether{Purpose::control, 0x106};

std::vector<int> first(int n) {
  std::vector<int> ranks(n);
  for (int r = 0; r < n; ++r) ranks[r] = r;
  return ranks;
}

class Worker {
 public:
  Worker(Rank& world, const Experiment& experiment, const WorkerOptions& options)
      : experiment_(experiment),
        config_(experiment.config),
        options_(options),
        moved_(world.size()),
        metered_(world.peers, moved_.ledger()),
        rank_{metered_, world.clock, world.background, world.lock, world.seed},
        learner_(open_learner()),
        clock_(world.clock, experiment.simulation ? 0 : clock_ahead_s(metered_), config_.workers),
        replica_(learner_->replica(), world.clock, clock_),
        crew_{rank_, config_.workers, config_.servers, config_.server_placement == "colocated",
              chosen_collective()},
        strategy_(options.strategy ? options.strategy(crew_)
                                   : make_strategy(config_.strategy, crew_)),
        recorder_(rank_, experiment, clock_, moved_),
        plan_(experiment.plan),
        luck_(rank_.random(purpose_of("compute time"))) {
    if (crew_.works()) workers_.emplace(metered_, first(config_.workers));
    if (config_.audit) strategy_ = audited(std::move(strategy_), crew_);
    learner_->on_slice_ready([this](Slice part) { strategy_->slice_ready(part); });
    used_ = usage_now();
    started_ = rank_.clock.now();
  }

  WorkerOutcome run() {
    const std::uint64_t first = config_.resume.empty() ? 0 : restore();
    if (config_.resume.empty()) broadcast(rank_.peers, kInitial, replica_.weights());
    recorder_.begin(options_.folder, options_.own_process,
                    {first, log_.samples(), before_.elapsed_s, before_.waited});
    together();
    for (std::uint64_t step = first; step < experiment_.steps; ++step) {
      if (options_.stopped && options_.stopped()) throw Stopped("the run was stopped");
      take(step);
      if (score_due(step + 1)) score(step + 1);
      if (checkpoint_due(step + 1)) save(step + 1);
    }
    return finish();
  }

 private:
  // One optimisation step: gradients of this rank's samples, then the strategy's turn.
  void take(std::uint64_t number) {
    const Step step = step_at(number);
    clock_.start();
    if (crew_.works()) compute(step);
    clock_.ready();
    exchange(step);
    clock_.end();
    log_.stepped(step, rank_.rank(), clock_.training_s());
    profiler_.add(learner_->last(), clock_.last_optimiser_s());
    recorder_.stepped(number + 1);
    if (watcher()) watcher()->step(log_.progress(experiment_.steps));
  }

  void compute(const Step& step) {
    log_.loss(learner_->compute(step.number), step.samples[rank_.rank()]);
    if (!experiment_.simulation) return;
    const auto full = static_cast<double>(experiment_.full_batch(rank_.rank()));
    const auto samples = static_cast<double>(step.samples[rank_.rank()]);
    rank_.clock.charge(experiment_.simulation->compute.of(rank_.rank(), samples / full, luck_));
  }

  void exchange(const Step& step) {
    if (crew_.works()) return strategy_->update(replica_, step);
    const StepAt at = [&](std::uint64_t n) { return step_at(n); };
    strategy_->serve(replica_, at, step.number, step.number + 1);
  }

  Step step_at(std::uint64_t number) {
    const Plan::Position at = plan_.position(number);
    return {number, at.epoch, plan_.samples(at.epoch, at.step)};
  }

  std::unique_ptr<Learner> open_learner() {
    const auto memory = [&](std::size_t count) {
      weights_ = rank_.peers.open_window(count * sizeof(float));
      gradients_ = rank_.peers.open_window(count * sizeof(float));
      return ReplicaMemory{weights_->mine(), gradients_->mine()};
    };
    if (experiment_.hollow()) return make_hollow_learner(experiment_, memory);
    return make_torch_learner(experiment_, rank_.rank(), memory, options_.turns);
  }

  const AllReduceRow& chosen_collective() {
    const AllReduceRow& asked = all_reduce_named(config_.collective);
    if (asked.sent) return asked;
    const Values weights = learner_->replica().weights();
    const bool in_window = window_of_all(rank_.peers, weights) != nullptr;
    return choose(weights.bytes().size, place_of(rank_.peers), in_window);
  }

  bool ends_epoch(std::uint64_t taken) {
    return taken == experiment_.steps || plan_.position(taken).step == 0;
  }
  bool score_due(std::uint64_t taken) {
    const std::uint64_t every = config_.evaluate_every;
    return ends_epoch(taken) || (every > 0 && taken % every == 0);
  }
  bool checkpoint_due(std::uint64_t taken) const {
    return options_.folder && config_.checkpoint_every > 0 && taken % config_.checkpoint_every == 0;
  }

  // Out of training time: what time went where, and how good the strategy's model is by now.
  void score(std::uint64_t taken) {
    recorder_.settle();
    std::vector<double> totals = log_.totals(moved_.exchanged().bytes_sent);
    sum_over_ranks(rank_.peers, totals);
    Score score = log_.score_from(totals, taken, ends_epoch(taken), clock_.training_s());
    const double start = rank_.clock.now();
    if (crew_.works() && !experiment_.hollow())
      evaluate(*workers_, *strategy_, *learner_, experiment_, score);
    recorder_.evaluated(start, crew_.works() ? rank_.clock.now() : start, taken);
    if (rank_.rank() == 0) recorder_.scored(score, log_.samples());
    if (!experiment_.hollow()) log_.scored(score);
    if (score.ends_epoch) log_.epoch_ended(clock_.training_s());
    if (rank_.rank() == 0 && !experiment_.hollow()) {
      if (options_.folder) options_.folder->add_metrics(to_json(score));
      if (watcher()) watcher()->score(score, log_.epoch());
    }
    together();
  }

  // So that nobody waits for late ones in the next step, whose time counts.
  void together() { barrier(rank_.peers, kTogether); }

  void save(std::uint64_t taken) {
    recorder_.settle();
    std::vector<Blob> blobs = learner_->state();
    const std::string progress =
        log_.text(clock_, {luck_.state(), strategy_->state(), moved_.exchanged(), moved_.other(),
                           recorder_.elapsed_s(), recorder_.waited_for()});
    blobs.push_back({"weights", learner_->replica().weights().bytes()});
    blobs.push_back({"progress", {progress.data(), progress.size()}});
    const nlohmann::ordered_json about = {
        {"step", taken}, {"parameters", replica_.weights().count()}, {"config", to_json(config_)}};
    save_checkpoint(rank_.peers, options_.folder->checkpoint(taken), about, blobs);
  }

  std::uint64_t restore() {
    const Checkpoint checkpoint(config_.resume);
    const int r = rank_.rank();
    checkpoint.read(r, "weights", learner_->replica().weights().bytes());
    learner_->restore(checkpoint, r);
    before_ = log_.restore(checkpoint.read(r, "progress"), clock_);
    luck_.restore(before_.luck);
    strategy_->restore(before_.strategy);
    moved_.restore(before_.exchanged, before_.other);
    return checkpoint.about().at("step");
  }

  WorkerOutcome finish() {
    WorkerOutcome outcome{{}, profiler_.profile(config_, experiment_)};
    if (crew_.works() && !experiment_.hollow())
      outcome.result.model_sha256 =
          save_model(*workers_, *strategy_, *learner_,
                     options_.folder ? options_.folder->model() : std::string());
    recorder_.finish();
    TrainResult& result = outcome.result;
    for (const std::string& text : gather_texts(rank_.peers, to_json(report()).dump()))
      result.ranks.push_back(nlohmann::ordered_json::parse(text));
    if (rank_.rank() == 0) add_waits(result);
    const std::string damaged = nlohmann::json(learner_->damaged()).dump();
    for (const std::string& text : gather_texts(rank_.peers, damaged))
      for (const auto& file : nlohmann::json::parse(text)) result.damaged.insert(file);
    log_.complete(result);
    if (options_.strategy || strategy_named(config_.strategy).exchange == Exchange::collective)
      result.collective = crew_.collective.name;
    result.steps = experiment_.steps;
    result.compute_variance_s2 = clock_.spent().variance_s2;
    result.data = experiment_.data.name;
    result.simulated = experiment_.simulation.has_value();
    result.split_s = experiment_.split_s;
    const int cores = experiment_.cores;
    result.oversubscribed =
        !result.simulated && config_.ranks() * experiment_.threads(cores) > cores;
    return outcome;
  }

  void add_waits(TrainResult& result) const {
    for (int r = 0; r < rank_.size(); ++r) {
      const WaitedFor::Share& share = recorder_.waited_for().by_rank[r];
      result.ranks[r]["waited_for_steps"] = share.steps;
      result.ranks[r]["waited_for_seconds"] = share.seconds;
    }
    result.straggler = recorder_.straggler();
  }

  RankReport report() const {
    RankReport report{rank_.rank(),
                      crew_.works(),
                      host_name(),
                      log_.own_samples(),
                      clock_.training_s(),
                      clock_.spent(),
                      moved_.exchanged(),
                      moved_.other().bytes_sent,
                      {},
                      recorder_.peaks()};
    if (!experiment_.simulation) report.usage = usage_since(used_, rank_.clock.now() - started_);
    return report;
  }
  std::string host_name() const {
    return experiment_.simulation ? fmt::format("host{}", rank_.peers.host_of(rank_.rank()))
                                  : this_machine().host;
  }

  Watcher* watcher() const { return rank_.rank() == 0 ? options_.watcher : nullptr; }

  const Experiment& experiment_;
  const TrainConfig& config_;
  const WorkerOptions& options_;
  Moved moved_;
  Metered metered_;
  Rank rank_;
  std::unique_ptr<Window> weights_, gradients_;
  std::unique_ptr<Learner> learner_;
  StepClock clock_;
  TimedReplica replica_;
  Crew crew_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Group> workers_;  // on workers
  Recorder recorder_;
  Plan plan_;
  Rng luck_;  // of simulated compute times
  ProgressLog log_;
  ProgressLog::Saved before_;  // of the run that is resumed
  Profiler profiler_;
  UsageMark used_;
  double started_ = 0;
};

}  // namespace

WorkerOutcome train(Rank& rank, const Experiment& experiment, const WorkerOptions& options) {
  if (rank.size() != experiment.config.ranks())
    throw UsageError(fmt::format("the run has {} workers and servers, but there are {} ranks",
                                 experiment.config.ranks(), rank.size()));
  return Worker(rank, experiment, options).run();
}

}  // namespace lockstep
