#include "train/worker.h"

#include <algorithm>
#include <utility>

#include "measure/machine.h"
#include "strategies/audit/audit.h"

namespace lockstep {
namespace {

// Runs the actions of the open batch. What they need from other workers is received some actions
// ahead, so that it travels while others run; but not all at once, since it takes memory.
void run_actions(Learner& learner, Carrier* carrier, const AfterAction& after) {
  constexpr std::size_t kAhead = 3;
  const std::vector<Action> actions = learner.actions();
  std::vector<std::size_t> expected;  // by action
  for (std::size_t i = 0; i < actions.size(); ++i) {
    while (carrier && expected.size() < std::min(i + 1 + kAhead, actions.size()))
      expected.push_back(carrier->expect(learner.needs(actions[expected.size()])));
    if (carrier) carrier->await(expected[i]);
    std::vector<Passage> made = learner.run(actions[i]);
    if (after) after(actions[i]);
    if (carrier) carrier->send(std::move(made));
  }
}

Fed* fed_part(const Strategy& strategy) {
  Fed* const fed = strategy.parts().fed;
  return fed && fed->begins_early() ? fed : nullptr;
}

}  // namespace

double compute(Learner& learner, Carrier* carrier, const AfterAction& after) {
  if (carrier) carrier->open(false);
  run_actions(learner, carrier, after);
  if (carrier) carrier->close();
  return learner.end_step();
}

Tally tally_of(Learner& learner, Slice part, Carrier* carrier) {
  learner.open_test(part);
  if (carrier) carrier->open(true);
  run_actions(learner, carrier, {});
  if (carrier) carrier->close();
  return learner.end_test();
}

void doze(Rank& rank, double seconds) {
  Pending nothing = rank.peers.bell();  // which nobody rings on this lane
  rank.peers.ending(nothing, {rank.clock.now() + seconds});
}

Stepper::Stepper(const Trainee& trainee, Plan& plan, RunState& state, Timetable& timetable,
                 Recorder& recorder)
    : trainee_(trainee),
      fed_(fed_part(trainee.strategy)),
      plan_(plan),
      state_(state),
      timetable_(timetable),
      recorder_(recorder) {
  if (fed_)
    trainee.learner.on_slice_ready([this](Slice part) {
      // In simulation nothing inside backward may pass time: the parts are told after it.
      trainee_.experiment.simulation ? ready_.push_back(part) : fed_->ready(part);
    });
  else if (!trainee.experiment.config.profile_out.empty())
    trainee.learner.on_slice_ready([](Slice) {});  // the learner notes the times
}

Step Stepper::step_at(std::uint64_t number) {
  const Plan::Position at = plan_.position(number);
  Step step{number, at.epoch, plan_.samples(at.epoch, at.step)};
  if (const auto& pipelines = trainee_.experiment.pipelines) {
    // The strategy sees the ranks that have this one's stages, each with its pipeline's samples.
    const Transport& equals = trainee_.crew.rank.peers;
    std::vector<std::size_t> by_equal;
    for (int i = 0; i < equals.size(); ++i)
      by_equal.push_back(step.samples[pipelines->pipeline_of(equals.job_rank(i))]);
    samples_ = std::move(by_equal);
  } else {
    samples_ = samples_read(trainee_.strategy, step);
  }
  step.samples = samples_;
  return step;
}

void Stepper::note(Step step, std::size_t own_samples) {
  if (trainee_.experiment.pipelines) {  // each sample once
    const Plan::Position at = plan_.position(step.number);
    step.samples = plan_.samples(at.epoch, at.step);
  }
  state_.log.stepped(step, own_samples, state_.clock.training_s());
}

void Stepper::take(const Generation& members, std::uint64_t number) {
  const Step step = step_at(number);
  take(members, step, number + 1, [&] {
    trainee_.learner.read_with(team_of(trainee_.strategy, step, trainee_.crew.rank.rank()));
    trainee_.learner.open_step(number);
  });
}

double Stepper::take_of_task(const Generation& members, const Step& step, std::size_t batch) {
  return take(members, step, ++of_tasks_,
              [&] { trainee_.learner.open_task_batch(batch, step.number); });
}

double Stepper::take(const Generation& members, const Step& step, std::uint64_t taken,
                     const std::function<void()>& open) {
  Strategy& strategy = trainee_.strategy;
  StepClock& clock = state_.clock;
  ProgressLog& log = state_.log;
  const bool trains = lockstep::trains(strategy, step);
  const std::size_t samples = trains ? step.samples[trainee_.crew.rank.rank()] : 0;
  clock.start();
  const double loss = trains ? compute_step(step, samples, open) : 0;
  const auto& pipelines = trainee_.experiment.pipelines;
  log.loss(loss, samples, !pipelines || pipelines->worker_of(trainee_.rank.rank()) == 0);
  clock.ready();
  const double waited_s = figures_of(strategy).waited_s;
  strategy.update(trainee_.replica, step);
  clock.waited(figures_of(strategy).waited_s - waited_s);
  clock.hidden(newly_hidden_s());
  if (recorder_.shows(taken)) clock.exchanged(figures_of(strategy).spans);
  if (samples == 0 && !trainee_.experiment.in_step() && trainee_.experiment.has_open_end())
    sit_out();
  clock.end();
  if (samples > 0) own_step_s_ = clock.last_s();
  note(step, samples);
  const Learner::Times& times = trainee_.learner.last();
  profiler_.add(times.forward_s, times.backward_s, clock.last_optimiser_s(), times.ready);
  recorder_.stepped(taken);
  if (!trainee_.experiment.in_step()) timetable_.took(log.own_samples());
  if (members.leads() && trainee_.options.watcher)
    trainee_.options.watcher->step(
        log.progress(trainee_.experiment.has_open_end() ? 0 : trainee_.experiment.steps));
  return loss;
}

double Stepper::compute_step(const Step& step, std::size_t samples,
                             const std::function<void()>& open) {
  if (fed_) fed_->expect(trainee_.replica, step);
  open();
  if (trainee_.carrier) return compute_passes(samples);
  if (trainee_.experiment.simulation) return simulate_step(samples);
  const double loss = compute(trainee_.learner);
  const double now = trainee_.rank.clock.now();
  state_.clock.backward(now - trainee_.learner.last().backward_s, now);
  return loss;
}

double Stepper::compute_passes(std::size_t samples) {
  const Pipelines& pipelines = *trainee_.experiment.pipelines;
  const auto& simulation = trainee_.experiment.simulation;
  Clock& clock = trainee_.rank.clock;
  // The time of a step is that of the largest batch, which is the first pipeline's.
  const auto full = static_cast<double>(trainee_.experiment.full_batch(0));
  const double full_s =
      simulation ? simulation->compute.of(trainee_.rank.rank(), 1, state_.luck) : 0;
  const double waited_s = trainee_.carrier->waited_s();
  double begun_s = clock.now(), waited_before_s = waited_s;
  const double loss = compute(trainee_.learner, trainee_.carrier, [&](const Action& action) {
    if (simulation) {
      const Slice micro = pipelines.schedule.samples_of(samples, action.replica, action.micro);
      clock.charge(full_s * static_cast<double>(micro.count) / full *
                   pipelines.shares[action.stage].of(action.pass));
      // Nothing inside backward may pass time: what it told is told when it is over.
      for (const Slice part : std::exchange(ready_, {})) fed_->ready(part);
    }
    const double now_s = clock.now(), waited_now_s = trainee_.carrier->waited_s();
    begun_s += waited_now_s - std::exchange(waited_before_s, waited_now_s);
    state_.clock.passed({static_cast<int>(action.pass), begun_s, now_s});
    begun_s = now_s;
  });
  for (const Slice part : std::exchange(ready_, {})) fed_->ready(part);
  state_.clock.stalled(trainee_.carrier->waited_s() - waited_s);
  return loss;
}

double Stepper::simulate_step(std::size_t samples) {
  const ComputeTime& time = trainee_.experiment.simulation->compute;
  Clock& clock = trainee_.rank.clock;
  // The time of a step is that of the largest batch, which is the first worker's.
  const auto full = static_cast<double>(trainee_.experiment.full_batch(0));
  const double all_s =
      time.of(trainee_.rank.rank(), static_cast<double>(samples) / full, state_.luck);
  const std::vector<Action> actions = trainee_.learner.actions();
  const auto is_forward = [](const Action& a) { return a.pass == StagePass::forward; };
  const auto passes =
      static_cast<double>(std::max<std::ptrdiff_t>(1, std::ranges::count_if(actions, is_forward)));
  const double backward_s = all_s * time.backward / passes;  // of the last micro-batch
  const double begun_s = all_s * (time.forward + time.backward) - backward_s;
  double charged_s = 0;
  // The last backward is charged below, between the parts of the gradients that it told.
  const auto charge = [&](const Action& action) {
    if (action == actions.back()) return;
    const double pass_s = is_forward(action) ? all_s * time.forward / passes : backward_s;
    clock.charge(pass_s);
    charged_s += pass_s;
  };
  const bool whole = passes == 1;
  const double loss = compute(trainee_.learner, nullptr, whole ? AfterAction{} : charge);
  const double backward_at = clock.now() + begun_s - charged_s;
  state_.clock.backward(backward_at, backward_at + backward_s);

  for (const auto& [part, share] : ready_parts()) {
    const double ready_s = begun_s + share * backward_s;
    if (ready_s > charged_s) clock.charge(ready_s - std::exchange(charged_s, ready_s));
    fed_->ready(part);
  }
  clock.charge(std::max(0.0, all_s - charged_s));
  return loss;
}

std::vector<ComputeTime::Ready> Stepper::ready_parts() {
  const std::vector<ComputeTime::Ready>& measured = trainee_.experiment.simulation->compute.ready;
  const std::size_t all = trainee_.replica.weights().count();
  std::size_t in_profile = 0, told = 0;
  for (const ComputeTime::Ready& one : measured) in_profile += one.part.count;
  std::vector<ComputeTime::Ready> parts;
  for (const Slice part : std::exchange(ready_, {})) {
    told += part.count;
    // A profile of another network says only how long a step takes.
    double share = in_profile == all ? 0 : static_cast<double>(told) / static_cast<double>(all);
    if (in_profile == all)
      for (const ComputeTime::Ready& one : measured)
        if (one.part.begin < part.end() && part.begin < one.part.end())
          share = std::max(share, one.share);
    parts.push_back({part, share});
  }
  std::ranges::stable_sort(parts, {}, &ComputeTime::Ready::share);
  return parts;
}

void Stepper::sit_out() {
  Rank& rank = trainee_.rank;
  const double start = rank.clock.now();
  if (trainee_.experiment.simulation) {
    rank.clock.charge(trainee_.experiment.simulation->compute.step_s);
  } else {
    constexpr double kUnknownStepSeconds = 0.01;  // of one that never had samples
    doze(rank, own_step_s_ > 0 ? own_step_s_ : kUnknownStepSeconds);
  }
  state_.clock.waited(rank.clock.now() - start);
}

// What has ended while this rank computed was hidden too: so since the last step, not since this
// update began.
double Stepper::newly_hidden_s() {
  const double before = std::exchange(hidden_s_, figures_of(trainee_.strategy).hidden_s);
  return hidden_s_ - before;
}

Generation Stepper::rest(const Generation& members, double& waited_s) {
  const double start = trainee_.rank.clock.now();
  const bool works = trainee_.crew.works();
  if (works) trainee_.strategy.parts().apart->rest(trainee_.replica);
  Generation left = members.survivors();
  if (const Audit* audit = trainee_.strategy.parts().audit; audit && works)
    audit->prove_at_rest(left.workers());
  (void)newly_hidden_s();  // what went on at rest was waited for
  waited_s += trainee_.rank.clock.now() - start;
  return left;
}

void Stepper::serve(std::uint64_t first, std::uint64_t end) {
  Strategy& strategy = trainee_.strategy;
  state_.clock.start();
  state_.clock.ready();
  const double waited_s = figures_of(strategy).waited_s;
  strategy.parts().serving->serve(
      trainee_.replica, [&](std::uint64_t n) { return step_at(n); }, first, end);
  state_.clock.waited(figures_of(strategy).waited_s - waited_s);
  state_.clock.end();
}

void Stepper::served(std::uint64_t first, std::uint64_t end) {
  if (end == kOpenEnd) return;
  for (std::uint64_t n = first; n < end; ++n) note(step_at(n), 0);
  recorder_.stepped(end);
}

Profile Stepper::profile() const {
  Profile profile = profiler_.medians();
  profile.model = trainee_.experiment.config.model;
  profile.batch = trainee_.experiment.full_batch(0);
  profile.threads = trainee_.experiment.threads(this_machine().cores);
  return profile;
}

}  // namespace lockstep
