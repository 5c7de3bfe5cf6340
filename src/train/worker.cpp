#include "train/worker.h"

#include <algorithm>
#include <utility>

#include "measure/machine.h"
#include "strategies/audit/audit.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

// Gradients of what passed between stages go back; all else goes forward.
Tag tag_of(const Passage& passage) {
  const Action& action = passage.action;
  return passage_channel(passage.link, action.replica, action.pass != StagePass::forward,
                         action.micro);
}

// Runs the actions of the open batch. What is sent stays in place until the batch is closed, and
// so sends are ended after the last action: none may wait for a receiver that has other work first.
void run_actions(Learner& learner, Transport* pipeline, const AfterAction& after) {
  std::vector<Pending> sent;
  for (const Action& action : learner.actions()) {
    for (const Passage& needed : learner.needs(action))
      pipeline->wait(pipeline->recv(needed.worker, tag_of(needed), needed.numbers.bytes()));
    const std::vector<Passage> made = learner.run(action);
    if (after) after(action);
    for (const Passage& one : made)
      sent.push_back(pipeline->send(one.worker, tag_of(one), one.numbers.bytes()));
  }
  for (Pending& one : sent) pipeline->wait(one);
}

Fed* fed_part(const Strategy& strategy) {
  Fed* const fed = strategy.parts().fed;
  return fed && fed->begins_early() ? fed : nullptr;
}

}  // namespace

double compute(Learner& learner, Transport* pipeline, const AfterAction& after) {
  run_actions(learner, pipeline, after);
  return learner.end_step();
}

Tally tally_of(Learner& learner, Slice part, Transport* pipeline) {
  learner.open_test(part);
  run_actions(learner, pipeline, {});
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
  samples_ = samples_read(trainee_.strategy, step);
  step.samples = samples_;
  return step;
}

void Stepper::take(const Generation& members, std::uint64_t number) {
  const Step step = step_at(number);
  take(members, step, number + 1, [&] {
    trainee_.learner.read_with(team_of(trainee_.strategy, step, trainee_.rank.rank()));
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
  const std::size_t samples = trains ? step.samples[trainee_.rank.rank()] : 0;
  clock.start();
  const double loss = trains ? compute_step(step, samples, open) : 0;
  log.loss(loss, samples);
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
  log.stepped(step, samples, clock.training_s());
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
  if (trainee_.experiment.simulation) return simulate_step(samples);
  const double loss = compute(trainee_.learner, trainee_.pipeline);
  const double now = trainee_.rank.clock.now();
  state_.clock.backward(now - trainee_.learner.last().backward_s, now);
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
  const bool whole = !trainee_.pipeline && passes == 1;
  const double loss = compute(trainee_.learner, trainee_.pipeline, whole ? AfterAction{} : charge);
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
  for (std::uint64_t n = first; n < end; ++n)
    state_.log.stepped(step_at(n), 0, state_.clock.training_s());
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
