#include "train/session.h"

#include <algorithm>
#include <utility>

#include "collectives/barrier.h"
#include "collectives/broadcast.h"
#include "strategies/audit.h"
#include "strategies/average.h"
#include "strategies/registry.h"
#include "train/gather.h"
#include "train/living.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kInitial = channels::kInitialWeights, kTogether = channels::kTogether;

std::vector<int> first(int n) {
  std::vector<int> ranks(n);
  for (int r = 0; r < n; ++r) ranks[r] = r;
  return ranks;
}

Background& scoring_of(const Rank& rank) {
  if (!rank.scoring) throw InternalError("a rank that trains has no lane for scores");
  return *rank.scoring;
}

}  // namespace

Session::Session(Rank& world, const Experiment& e, const WorkerOptions& options)
    : experiment(e),
      config_(e.config),
      options_(options),
      moved_(world.size()),
      metered_(world.peers, moved_.ledger()),
      background_(world.background, world.size()),
      scoring_(scoring_of(world), world.size()),
      rank_{metered_, world.clock, background_, world.lock, world.seed, &scoring_},
      learner_(open_learner()),
      clock_(world.clock, e.simulation ? 0 : clock_ahead_s(metered_), config_.workers),
      replica_(learner_->replica(), world.clock, clock_),
      crew_{rank_,
            config_.workers,
            config_.servers,
            config_.servers_within_workers(),
            all_reduce_named(config_.collective),
            e.plan.idle(),
            e.plan.cut() == Cut::by_share},
      strategy_(make_strategy_of_run()),
      recorder_(rank_, e, clock_, moved_, options.watcher),
      end_(rank_, e, clock_, !e.in_step()),
      last_step_(e.steps),
      plan_(e.plan),
      pacemaker_([shares = e.plan.samples_by_worker()](const std::vector<int>& workers) {
        return *std::ranges::max_element(workers, {}, [&](int w) { return shares[w]; });
      }),
      luck_(rank_.random(purpose_of("compute time"))) {
  moved_.add(background_);
  moved_.add(scoring_);
  if (crew_.works()) workers_.emplace(metered_, first(config_.workers));
  if (e.strategy.goes_in_rounds()) meeting_ = group_of(first(rank_.size()));
  if (Fed* fed = strategy_->parts().fed)
    learner_->on_slice_ready([this, fed](Slice part) {
      // In simulation nothing inside backward may pass time: the parts are told after it.
      experiment.simulation ? ready_.push_back(part) : fed->ready(part);
    });
  used_ = usage_now();
  started_ = rank_.clock.now();
}

std::unique_ptr<Learner> Session::open_learner() {
  const auto memory = [&](std::size_t count) {
    weights_ = rank_.peers.open_window(count * sizeof(float));
    gradients_ = rank_.peers.open_window(count * sizeof(float));
    return ReplicaMemory{weights_->mine(), gradients_->mine()};
  };
  if (experiment.hollow()) return make_hollow_learner(experiment, memory);
  return make_torch_learner(experiment, rank_.rank(), memory, options_.turns);
}

const AllReduceRow& Session::chosen_collective() const {
  return collective_for(crew_, learner_->replica().weights());
}

std::unique_ptr<Strategy> Session::make_strategy_of_run() {
  auto strategy = make_strategy(config_.strategy, crew_, config_.own_strategy);
  return config_.audit ? audited(std::move(strategy), crew_) : std::move(strategy);
}

std::uint64_t Session::start() {
  std::uint64_t first = 0;
  if (config_.resume.empty()) {
    broadcast(rank_.peers, kInitial, replica_.weights());
    strategy_->begin(replica_);
  } else {
    first = restore();
  }
  if (!experiment.in_step() && crew_.works()) end_.met(workers(), log_.own_samples());
  // As after a checkpoint, so that a resumed run goes on at the same pace to the microsecond.
  together();
  // All have what they go on from: from here on the run's folder may change.
  if (!config_.resume.empty() && leads() && options_.folder) options_.folder->go_on();
  recorder_.begin(options_.folder, options_.own_process,
                  {first, log_.samples(), before_.elapsed_s, before_.waited});
  if (!config_.resume.empty()) line_up();
  return first;
}

Step Session::step_at(std::uint64_t number) {
  const Plan::Position at = plan_.position(number);
  Step step{number, at.epoch, plan_.samples(at.epoch, at.step)};
  samples_ = samples_read(*strategy_, step);
  step.samples = samples_;
  return step;
}

void Session::take(std::uint64_t number) {
  const Step step = step_at(number);
  take(step, number + 1, [&] {
    learner_->read_with(team_of(*strategy_, step, rank_.rank()));
    return learner_->compute(number);
  });
}

double Session::take_of_task(const Step& step, std::size_t batch) {
  return take(step, ++of_tasks_, [&] { return learner_->compute_of_task(batch, step.number); });
}

double Session::take(const Step& step, std::uint64_t taken,
                     const std::function<double()>& compute) {
  const bool trains = lockstep::trains(*strategy_, step);
  const std::size_t samples = trains ? step.samples[rank_.rank()] : 0;
  Fed* const fed = trains ? strategy_->parts().fed : nullptr;
  clock_.start();
  if (fed) fed->expect(replica_, step);
  const double loss = trains ? compute() : 0;
  log_.loss(loss, samples);
  if (trains && experiment.simulation) {
    // The time of a step is that of the largest batch, which is the first worker's.
    const auto full = static_cast<double>(experiment.full_batch(0));
    rank_.clock.charge(experiment.simulation->compute.of(
        rank_.rank(), static_cast<double>(samples) / full, luck_));
  }
  for (const Slice part : std::exchange(ready_, {})) fed->ready(part);
  clock_.ready();
  const double waited_s = figures_of(*strategy_).waited_s;
  strategy_->update(replica_, step);
  clock_.waited(figures_of(*strategy_).waited_s - waited_s);
  clock_.hidden(newly_hidden_s());
  if (samples == 0 && !experiment.in_step() && experiment.has_open_end()) sit_out();
  clock_.end();
  if (samples > 0) own_step_s_ = clock_.last_s();
  log_.stepped(step, samples, clock_.training_s());
  profiler_.add(learner_->last(), clock_.last_optimiser_s());
  recorder_.stepped(taken);
  if (!experiment.in_step()) end_.took(log_.own_samples());
  if (watcher()) watcher()->step(log_.progress(experiment.has_open_end() ? 0 : experiment.steps));
  return loss;
}

void Session::sit_out() {
  const double start = rank_.clock.now();
  if (experiment.simulation) {
    rank_.clock.charge(experiment.simulation->compute.step_s);
  } else {
    constexpr double kUnknownStepSeconds = 0.01;  // of one that never had samples
    doze(own_step_s_ > 0 ? own_step_s_ : kUnknownStepSeconds);
  }
  clock_.waited(rank_.clock.now() - start);
}

void Session::doze(double seconds) {
  Pending nothing = rank_.peers.bell();  // which nobody rings on this lane
  rank_.peers.ending(nothing, {rank_.clock.now() + seconds});
}

// What has ended while this rank computed was hidden too: so since the last step, not since this
// update began.
double Session::newly_hidden_s() {
  const double before = std::exchange(hidden_s_, figures_of(*strategy_).hidden_s);
  return hidden_s_ - before;
}

double Session::rest() {
  const double start = rank_.clock.now();
  if (crew_.works()) apart().rest(replica_);
  meet_the_living();
  if (const Audit* audit = strategy_->parts().audit; audit && crew_.works())
    audit->prove_at_rest(workers());
  (void)newly_hidden_s();  // what went on at rest was waited for
  return rank_.clock.now() - start;
}

void Session::serve(std::uint64_t first, std::uint64_t end) {
  clock_.start();
  clock_.ready();
  const double waited_s = figures_of(*strategy_).waited_s;
  strategy_->parts().serving->serve(
      replica_, [&](std::uint64_t n) { return step_at(n); }, first, end);
  clock_.waited(figures_of(*strategy_).waited_s - waited_s);
  clock_.end();
}

void Session::served(std::uint64_t first, std::uint64_t end) {
  if (end == kOpenEnd) return;
  for (std::uint64_t n = first; n < end; ++n) log_.stepped(step_at(n), 0, clock_.training_s());
  recorder_.stepped(end);
}

bool Session::meets_at_the_end(std::uint64_t taken, std::uint64_t end) {
  if (!experiment.has_open_end()) return end == experiment.steps;
  const auto rows = all_rows(present(), {static_cast<double>(taken)});
  std::uint64_t least = end, most = 0;
  std::vector<int> at_work;
  std::vector<std::uint64_t> steps(config_.workers);  // by worker
  for (int r = 0; r < present().size(); ++r) {
    const int worker = present().job_rank(r);
    if (worker >= config_.workers) continue;
    at_work.push_back(worker);
    steps[worker] = static_cast<std::uint64_t>(rows[r][0]);
    least = std::min(least, steps[worker]);
    most = std::max(most, steps[worker]);
  }
  if (!crew_.works()) recorder_.stepped(most);
  if (least == end) {
    if (crew_.works()) end_.met(workers(), log_.own_samples());
    return false;
  }
  end_at(steps[pacemaker(at_work)]);
  return true;
}

bool Session::stops_with_checkpoint() const {
  return options_.stopped && options_.folder && config_.checkpoint_every > 0;
}

void Session::check_stopped() const {
  if (options_.stopped && options_.stopped()) throw Stopped("the run was stopped");
}

void Session::check_stopped(std::uint64_t taken) {
  if (!stops_with_checkpoint()) return check_stopped();
  if (!all_stop(taken)) return;
  if (taken > 0 && !checkpoint_due(taken)) save(taken);
  throw Stopped("the run was stopped");
}

bool Session::is_to_rest() const {
  if (!stops_with_checkpoint()) check_stopped();
  return options_.stopped && options_.stopped();
}

std::optional<std::uint64_t> Session::stops_at(std::uint64_t taken) {
  if (!stops_with_checkpoint()) return {};
  std::vector<double> mine{options_.stopped() ? 1.0 : 0.0, static_cast<double>(taken)};
  bool stops = false;
  double furthest = 0;
  for (const std::vector<double>& row : all_rows(present(), mine)) {
    stops = stops || row[0] > 0;
    furthest = std::max(furthest, row[1]);
  }
  return stops ? std::optional(static_cast<std::uint64_t>(furthest)) : std::nullopt;
}

// Ranks of several processes hear of a signal at different steps, so they ask each other from time
// to time: rank 0's clock says after how many steps.
bool Session::all_stop(std::uint64_t taken) {
  constexpr double kAskEverySeconds = 0.25;
  constexpr double kMostSteps = 1000;
  if (options_.stopped_after) return options_.stopped_after(taken);
  if (taken < vote_.next) return false;
  const double now = rank_.clock.now(), passed_s = now - vote_.at_s;
  const auto steps = static_cast<double>(taken - vote_.taken);
  const bool asked = vote_.next > 0 && passed_s > 0;  // before
  const double apart = asked ? kAskEverySeconds * steps / passed_s : 1;
  std::vector<double> votes{options_.stopped() ? 1.0 : 0.0,
                            rank_.rank() == 0 ? std::clamp(apart, 1.0, kMostSteps) : 0.0};
  sum_over_ranks(rank_.peers, votes);
  vote_ = {taken, taken + static_cast<std::uint64_t>(votes[1]), now};
  return votes[0] > 0;
}

bool Session::ends_epoch(std::uint64_t taken) {
  return taken == last_step_ || plan_.position(taken).step == 0;
}

bool Session::score_due(std::uint64_t taken) {
  const std::uint64_t every = config_.evaluate_every;
  return ends_epoch(taken) || (every > 0 && taken % every == 0);
}

bool Session::checkpoint_due(std::uint64_t taken) const {
  return options_.folder && config_.checkpoint_every > 0 && taken % config_.checkpoint_every == 0;
}

void Session::score(std::uint64_t taken) {
  recorder_.settle(present());
  std::vector<double> totals = log_.totals(moved_.exchanged().bytes_sent);
  sum_over_ranks(present(), totals);
  Score score = log_.score_from(totals, taken, ends_epoch(taken), clock_.training_s());
  const double start = rank_.clock.now();
  if (crew_.works() && !experiment.hollow()) {
    const Model model =
        model_of(workers(), *strategy_, *learner_, log_.own_samples(), config_.audit);
    evaluate(workers(), *learner_, experiment, model, floats(replica_.weights()),
             strategy_->mass() > 0, score);
  }
  recorder_.evaluated(start, crew_.works() ? rank_.clock.now() : start, taken);
  keep(score, log_.samples(), leads());
  scored_at_ = taken;
  together();
}

void Session::keep(Score& score, std::uint64_t samples, bool publishes) {
  if (publishes) recorder_.scored(score, samples);
  if (!experiment.hollow()) log_.scored(score);
  if (score.ends_epoch) log_.epoch_ended(score.training_s);
  if (!publishes || experiment.hollow()) return;
  if (options_.folder) recorder_.write([&] { options_.folder->add_metrics(to_json(score)); });
  // Not where the run is now: scores of ranks that go apart come late.
  const std::uint64_t step = score.steps > 0 ? score.steps - 1 : 0;
  if (options_.watcher) options_.watcher->score(score, plan_.position(step).epoch);
}

int Session::first_worker() {
  int first = 0;
  while (std::ranges::binary_search(lost_, first)) ++first;
  return first;
}

std::unique_ptr<Group> Session::group_of(std::vector<int> ranks) {
  if (experiment.strategy.goes_in_rounds())
    std::ranges::rotate(ranks, ranks.end() - 1);  // the manager is the last
  return std::make_unique<Group>(rank_.peers, std::move(ranks));
}

void Session::together() { patient_barrier(present(), kTogether); }

void Session::line_up() {
  if (!experiment.simulation) return;
  // The second exchange starts when the first has ended on all, so it takes no longer than that did
  // from when all had started it.
  const auto latest = [&] {
    double most = 0;
    for (const auto& row : all_rows(present(), {rank_.clock.now()})) most = std::max(most, row[0]);
    return most;
  };
  const double all_started = latest(), all_ended = latest();
  const double line = all_ended + 2 * (all_ended - all_started);
  if (const double now = rank_.clock.now(); now < line) rank_.clock.charge(line - now);
}

void Session::meet_the_living() {
  // Where there is a manager, who is lost is for it to say: all others answer to it alone.
  const bool rounds = experiment.strategy.goes_in_rounds();
  Transport& among = rounds ? present() : rank_.peers;
  std::vector<int> living;
  for (const int r : agree_on_living(among)) living.push_back(among.job_rank(r));
  std::ranges::sort(living);
  if (static_cast<int>(living.size()) == rank_.size()) return;
  lost_ = absent_from(living, rank_.size());
  const int manager = config_.workers;
  if (rounds && lost_.back() == manager)
    throw TransportError(
        TransportError::Kind::dead, manager,
        fmt::format("rank {}, the manager, is gone, and with it the model", manager));
  meeting_ = group_of(living);
  std::vector<int> at_work;
  for (const int r : living)
    if (r < config_.workers) at_work.push_back(r);
  if (at_work.empty())
    throw TransportError(TransportError::Kind::dead, 0,
                         "all workers are gone: nobody is left to train");
  if (crew_.works()) workers_.emplace(rank_.peers, at_work);
}

}  // namespace lockstep
