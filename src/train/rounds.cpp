// Workers that go in rounds, and their manager.
#include <algorithm>
#include <cmath>

#include "strategies/rounds/round_strategy.h"
#include "train/evaluate.h"
#include "train/worker.h"
#include "transport/awake_clock.h"

namespace lockstep {
namespace {

// A task's time is up when it is, not a rounding error before.
constexpr double kLeastWaitSeconds = 1e-3;

// Where the weights of a run travel as files: those. UsageError if the run is kept nowhere.
std::optional<RoundFiles> files_of(const RoundStrategy& strategy, const RunFolder* folder) {
  if (!strategy.terms().by_files) return {};
  if (!folder)
    throw UsageError("exchange=files needs a run that is kept in a folder: use exchange=messages");
  return RoundFiles(folder->path());
}

// The mean squared distance of results from what was made of them. A task without samples has none.
double spread(Values model, const std::vector<RoundResult>& results) {
  double sum = 0, count = 0;
  for (const RoundResult& result : results) {
    if (result.samples == 0) continue;
    for (std::size_t i = 0; i < model.count(); ++i) {
      const double d = double(floats(result.model.weights)[i]) - double(floats(model)[i]);
      sum += d * d;
    }
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Trains on one task after the other, as the manager grants them.
class RoundWorker {
 public:
  RoundWorker(const Trainee& trainee, Stepper& worker, const Timetable& timetable,
              const Generation& members, StepClock& clock)
      : trainee_(trainee),
        worker_(worker),
        timetable_(timetable),
        members_(members),
        clock_(clock),
        strategy_(in_rounds(trainee.strategy)),
        mail_(trainee.rank.peers, trainee.crew.workers),
        plan_(trainee.experiment.plan),
        files_(files_of(strategy_, trainee.options.folder)) {}

  void run() {
    for (std::optional<RoundNote> missed;;) {
      timetable_.check_stopped();
      const double start = now();
      const RoundNote task = mail_.want();
      clock_.between_steps(0, std::max(0.0, now() - start - task.aside_s));
      if (task.kind == RoundNote::Kind::over) return;
      if (load(task)) {
        work(task);
      } else {
        // The file is there while the round is open. So the round has ended since, and another task
        // comes; or this one comes again.
        if (missed && missed->round == task.round && missed->task == task.task)
          files_->throw_not_shared(fmt::format("the model of epoch {}", task.round + 1));
        missed = task;
      }
    }
  }

 private:
  // The round's model. False: its file is not there.
  bool load(const RoundNote& task) {
    const double start = now();
    const RoundModel into = model();
    if (!files_)
      mail_.receive(into);
    else if (!files_->read(RoundFiles::of_round(task.round), into))
      return false;
    trainee_.learner.set_statistics(statistics_);
    strategy_.starts_from(trainee_.replica, model().statistics, task.proof);
    clock_.between_steps(now() - start, 0);
    return true;
  }

  // The split's shard of that number, in the order in which its worker would read it.
  std::vector<std::uint32_t> indices_of(const RoundNote& task, int epoch) {
    std::vector<std::uint32_t> indices;
    for (std::size_t step = 0; step < plan_.steps(epoch); ++step) {
      const auto batch = plan_.indices(task.task, epoch, step);
      indices.insert(indices.end(), batch.begin(), batch.end());
    }
    return indices;
  }

  void work(const RoundNote& task) {
    const int epoch = static_cast<int>(task.round);
    const std::vector<std::uint32_t> indices = indices_of(task, epoch);
    const std::size_t batch = trainee_.experiment.full_batch(task.task);
    trainee_.replica.forget();
    trainee_.learner.open_task(indices, batch, epoch);
    std::vector<std::size_t> samples(trainee_.crew.workers);
    double loss = 0;
    const std::vector<Slice> batches = pieces({0, indices.size()}, batch);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      timetable_.check_stopped();
      if (mail_.is_refused()) return;
      samples[trainee_.rank.rank()] = batches[i].count;
      loss += worker_.take_of_task(members_, {plan_.steps_before(epoch) + i, epoch, samples}, i) *
              static_cast<double>(batches[i].count);
    }
    const auto count = static_cast<double>(indices.size());
    hand_in(task, count > 0 ? loss / count : 0, indices.size());
  }

  void hand_in(const RoundNote& task, double loss, std::uint64_t samples) {
    const double start = now();
    const RoundModel result = model();
    const RoundProof proof = strategy_.comes_with(trainee_.replica, result.statistics);
    const std::string file = RoundFiles::of_result(task.round, task.task, trainee_.rank.rank());
    if (files_) files_->write(file, result);
    const bool counts =
        mail_.hand_in({RoundNote::Kind::hands_in, task.task, task.round, proof, 0, loss, samples},
                      files_ ? std::nullopt : std::optional(result));
    if (files_ && !counts) files_->remove(file);
    clock_.between_steps(now() - start, 0);
  }

  // This worker's, as it is now.
  RoundModel model() {
    statistics_ = trainee_.learner.statistics();
    return {trainee_.replica.weights(), Values(statistics_.data(), statistics_.size(), Type::fp32)};
  }
  double now() const { return trainee_.rank.clock.now(); }

  const Trainee trainee_;
  Stepper& worker_;
  const Timetable& timetable_;
  const Generation& members_;
  StepClock& clock_;
  RoundStrategy& strategy_;
  WorkerMail mail_;
  Plan plan_;
  const std::optional<RoundFiles> files_;
  std::vector<float> statistics_;
};

// Opens the rounds, deals their tasks, gathers the results, and scores what comes of them. It
// computes nothing itself while a round is open.
class RoundManager {
 public:
  RoundManager(const Trainee& trainee, const Timetable& timetable, Recorder& recorder,
               const Generation& members, RunState& state)
      : trainee_(trainee),
        timetable_(timetable),
        recorder_(recorder),
        members_(members),
        state_(state),
        strategy_(in_rounds(trainee.strategy)),
        files_(files_of(strategy_, trainee.options.folder)),
        mail_(trainee.rank.peers, trainee.crew.workers),
        book_(trainee.crew.workers, strategy_.terms().tasks),
        alone_(trainee.rank.peers, {trainee.rank.rank()}),
        plan_(trainee.experiment.plan),
        statistics_(trainee.learner.statistics()),
        came_(trainee.crew.workers),
        workers_(trainee.crew.workers),
        awake_(trainee.rank.clock.now()),
        ended_(trainee.rank.clock.now()) {}

  // All rounds. TransportError: all workers are gone.
  void run() {
    const auto epochs = static_cast<int>(trainee_.experiment.config.epochs);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const double begun = now();
      open(epoch, begun - ended_);
      const std::vector<RoundResult> results = gather();
      const double gathered = now();
      strategy_.aggregate(view(), results);
      if (files_) files_->remove_until(round_);
      ended_ = now();
      state_.clock.between_steps(ended_ - gathered, gathered - begun);
      log(epoch, results);
      score(epoch, results);
    }
    dismiss();
  }

  // What the run has come to.
  Model model() {
    strategy_.proof_of(view());
    const std::span<const float> weights = floats(trainee_.replica.weights());
    return {{weights.begin(), weights.end()}, statistics_};
  }

  // After all ranks have met.
  TaskCounts close() {
    if (files_) files_->remove_all();
    return {reissued_, dropped_};
  }

 private:
  struct Came {  // the result of a task
    std::unique_ptr<ModelCopy> model;
    RoundProof proof;
  };
  struct Worker {
    // `works`: has a task, for which it is owed one answer, granted or refused. `idle`: none of the
    // others. `left`: dismissed or dead.
    enum class State { idle, waits, works, left } state = State::idle;
    int delivers = -1;  // the task whose model is on its way
  };
  using State = Worker::State;

  // `aside_s`: since the last round ended, in which workers that have asked for a task waited.
  void open(int epoch, double aside_s) {
    hear_all();
    round_ = static_cast<std::uint64_t>(epoch);
    proof_ = strategy_.proof_of(view());
    given_ = files_ ? nullptr : std::make_shared<const ModelCopy>(view());
    if (files_) files_->write(RoundFiles::of_round(round_), view());
    book_.open(round_, awake_s());
    deal_to_waiting(aside_s);
  }

  std::vector<RoundResult> gather() {
    for (;;) {
      timetable_.check_stopped();
      if (is_complete()) break;
      if (mail_.present() == 0)
        throw TransportError(TransportError::Kind::dead, 0,
                             fmt::format("all {} workers are gone in epoch {}: nobody is left to "
                                         "train",
                                         trainee_.crew.workers, round_ + 1));
      deal_to_waiting(0);
      const double next_s = book_.next_in_s(awake_s());
      const double most_s = std::isinf(next_s) ? patience_s() : AwakeClock::kLookSeconds;
      if (const auto event = mail_.next({now() + std::clamp(next_s, kLeastWaitSeconds, most_s)}))
        handle(*event);
    }
    for (int worker = 0; worker < std::ssize(workers_); ++worker)
      if (workers_[worker].state == State::works) {
        workers_[worker].state = State::idle;
        mail_.answer(worker, {RoundNote::Kind::refused, 0, round_});
      }
    return results();
  }

  // There are no more rounds: says so to every worker that is left, when it asks.
  void dismiss() {
    hear_all();
    over_ = true;
    deal_to_waiting(now() - ended_);
    while (!all_are([](const Worker& worker) { return worker.state == State::left; })) {
      timetable_.check_stopped();
      if (const auto event = mail_.next({now() + patience_s()})) handle(*event);
    }
  }

  // Is all there that there will be?
  bool is_complete() {
    return book_.settled(awake_s()) &&
           all_are([](const Worker& worker) { return worker.delivers < 0; });
  }
  bool all_are(bool (*so)(const Worker&)) const { return std::ranges::all_of(workers_, so); }

  // What has come already.
  void hear_all() {
    while (const auto event = mail_.next({now()})) handle(*event);
  }

  void handle(const ManagerMail::Event& event) {
    using Kind = ManagerMail::Event::Kind;
    if (event.kind == Kind::gone) return lose(event.worker);
    if (event.kind == Kind::model) {
      workers_[event.worker].delivers = -1;
    } else if (event.note.kind == RoundNote::Kind::hands_in) {
      take_in(event.worker, event.note);
    } else {
      deal(event.worker, 0);
    }
  }

  // Answers a worker that asked for a task, if there is one. `aside_s`: see RoundNote.
  void deal(int worker, double aside_s) {
    State& state = workers_[worker].state;
    if (over_) {
      state = State::left;
      return mail_.answer(worker, {RoundNote::Kind::over, 0, round_, {}, aside_s});
    }
    const std::optional<int> task = book_.take(worker, awake_s());
    state = task ? State::works : State::waits;
    if (task)
      mail_.answer(worker, {RoundNote::Kind::granted, *task, round_, proof_, aside_s}, given_);
  }
  void deal_to_waiting(double aside_s) {
    for (int worker = 0; worker < std::ssize(workers_); ++worker)
      if (workers_[worker].state == State::waits) deal(worker, aside_s);
  }

  void take_in(int worker, const RoundNote& note) {
    if (workers_[worker].state != State::works) return;  // a refusal has crossed it
    workers_[worker].state = State::idle;
    const bool counts = book_.report(worker, note.round, note.task, note.loss, note.samples);
    using Kind = RoundNote::Kind;
    mail_.answer(worker, {counts ? Kind::granted : Kind::refused, note.task, round_});
    if (!counts) return;
    Came& came = came_[note.task];
    came.proof = note.proof;
    if (!came.model) came.model = std::make_unique<ModelCopy>(view());
    if (!files_) {
      workers_[worker].delivers = note.task;
      return mail_.take(worker, came.model->view());
    }
    // It was written before it was handed in.
    if (!files_->read(RoundFiles::of_result(round_, note.task, worker), came.model->view()))
      files_->throw_not_shared(fmt::format("rank {}'s result of epoch {}", worker, round_ + 1));
  }

  void lose(int worker) {
    // A result that it had reported and not delivered is lost with it.
    if (const int task = workers_[worker].delivers; task >= 0) book_.take_back(task);
    book_.bury(worker);
    workers_[worker] = {State::left};
  }

  std::vector<RoundResult> results() {
    std::vector<RoundResult> results;
    const std::vector<TaskState>& tasks = book_.look(awake_s());
    for (int k = 0; k < std::ssize(tasks); ++k) {
      const TaskState& task = tasks[k];
      reissued_ += static_cast<std::uint64_t>(std::max(0, task.issues - 1));
      if (task.kind == TaskState::Kind::dropped) ++dropped_;
      if (task.kind != TaskState::Kind::reported) continue;
      results.push_back(
          {k, task.holder, task.loss, task.samples, came_[k].model->view(), came_[k].proof});
    }
    if (results.empty())
      throw Error(
          fmt::format("epoch {}: none of {} tasks came back; give up later, or reissue "
                      "them",
                      round_ + 1, tasks.size()));
    return results;
  }

  // All steps of the epoch at once, with what came of them.
  void log(int epoch, const std::vector<RoundResult>& results) {
    const std::uint64_t taken = plan_.steps_before(epoch + 1);
    const double training_s = state_.clock.training_s();
    std::vector<std::size_t> samples(trainee_.crew.workers);
    for (std::uint64_t step = plan_.steps_before(epoch); step + 1 < taken; ++step)
      state_.log.stepped({step, epoch, samples}, 0, training_s);
    double loss = 0, count = 0;
    for (const RoundResult& result : results) {
      samples[result.worker] += result.samples;
      loss += result.loss * static_cast<double>(result.samples);
      count += static_cast<double>(result.samples);
    }
    state_.log.loss(count > 0 ? loss / count : 0, static_cast<std::size_t>(count));
    state_.log.stepped({taken - 1, epoch, samples}, 0, training_s);
    recorder_.stepped(taken);
    if (members_.leads() && trainee_.options.watcher)
      trainee_.options.watcher->step(state_.log.progress(trainee_.experiment.steps));
  }

  void score(int epoch, const std::vector<RoundResult>& results) {
    // All that travels comes by here.
    const Traffic moved = recorder_.exchanged();
    Score score =
        ProgressLog::score_from(state_.log.totals(moved.bytes_sent + moved.bytes_received),
                                plan_.steps_before(epoch + 1), true, state_.clock.training_s());
    if (!trainee_.experiment.hollow()) {
      const Values weights = trainee_.replica.weights();
      evaluate(alone_, trainee_.learner, trainee_.experiment, model(), floats(weights), true,
               score);
      score.consensus_distance = spread(weights, results);
    }
    recorder_.keep(state_.log, score, state_.log.samples(), members_.leads());
  }

  RoundModel view() {
    return {trainee_.replica.weights(), Values(statistics_.data(), statistics_.size(), Type::fp32)};
  }
  double now() const { return trainee_.rank.clock.now(); }
  // By this clock tasks are out: no worker is given up for the time that this process stood still.
  double awake_s() { return awake_.now(now()); }
  double patience_s() const { return trainee_.rank.peers.patience_seconds(); }

  const Trainee trainee_;
  const Timetable& timetable_;
  Recorder& recorder_;
  const Generation& members_;
  RunState& state_;
  RoundStrategy& strategy_;
  const std::optional<RoundFiles> files_;
  ManagerMail mail_;
  TaskBook book_;
  Group alone_;
  Plan plan_;
  std::vector<float> statistics_;           // with the weights of this rank's replica: the model
  std::shared_ptr<const ModelCopy> given_;  // the round's, as it is handed out
  RoundProof proof_;                        // of it
  std::vector<Came> came_;                  // by task
  std::vector<Worker> workers_;
  AwakeClock awake_;
  std::uint64_t round_ = 0;
  bool over_ = false;
  double ended_;  // when the last round did
  std::uint64_t reissued_ = 0, dropped_ = 0;
};

}  // namespace

TaskCounts run_rounds(const Trainee& trainee, Stepper& worker, const Timetable& timetable,
                      Recorder& recorder, Generation& members, RunState& state) {
  if (trainee.crew.works()) {
    RoundWorker(trainee, worker, timetable, members, state.clock).run();
    members = members.survivors();
    return {};
  }
  RoundManager manager(trainee, timetable, recorder, members, state);
  manager.run();
  members = members.survivors();
  if (!trainee.experiment.hollow()) recorder.keep_model(trainee.learner, manager.model());
  return manager.close();
}

}  // namespace lockstep
