#include "train/round_manager.h"

#include <algorithm>

namespace lockstep {
namespace {

// A task's time is up when it is, not a rounding error before.
constexpr double kLeastWaitSeconds = 1e-3;

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

}  // namespace

std::optional<WeightFiles> files_of(Session& session) {
  if (!in_rounds(session.strategy()).terms().by_files) return {};
  if (!session.folder())
    throw UsageError("exchange=files needs a run that is kept in a folder: use exchange=messages");
  return WeightFiles(session.folder()->path());
}

RoundManager::RoundManager(Session& session)
    : session_(session),
      strategy_(in_rounds(session.strategy())),
      board_(session.open_tasks()),
      files_(files_of(session)),
      mail_(session.rank().peers, session.crew().workers),
      alone_(session.rank().peers, {session.rank().rank()}),
      plan_(session.experiment.plan),
      statistics_(session.learner().statistics()),
      came_(session.crew().workers),
      delivers_(session.crew().workers, -1),
      ended_(session.rank().clock.now()) {}

RoundModel RoundManager::view() {
  return {session_.replica().weights(), Values(statistics_.data(), statistics_.size(), Type::fp32)};
}

Model RoundManager::model() {
  strategy_.proof_of(view());
  const std::span<const float> weights = floats(session_.replica().weights());
  return {{weights.begin(), weights.end()}, statistics_};
}

void RoundManager::tell_all(const RoundWord& word) {
  for (int worker = 0; worker < session_.crew().workers; ++worker) mail_.word(worker, word);
}

void RoundManager::run() {
  const std::uint64_t rounds = session_.experiment.config.epochs;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const double begun = now();
    open(round, begun - ended_);
    const std::vector<RoundResult> results = gather(round);
    const double gathered = now();
    strategy_.aggregate(view(), results);
    if (files_) files_->remove_until(round);
    ended_ = now();
    session_.clock().between_steps(ended_ - gathered, gathered - begun);
    log(static_cast<int>(round), results);
    score(static_cast<int>(round), results);
  }
  board_->close();
  tell_all({rounds, now() - ended_, 1});
  see_off();
}

void RoundManager::see_off() {
  std::vector<bool> left(session_.crew().workers);
  const auto all_left = [&] {
    for (int w = 0; w < std::ssize(left); ++w)
      if (mail_.has(w) && !left[w]) return false;
    return true;
  };
  while (!all_left()) {
    session_.check_stopped();
    const auto event = mail_.next({now() + session_.rank().peers.patience_seconds()});
    if (!event || event->kind != ManagerMail::Event::Kind::note) continue;
    if (event->note.kind == RoundNote::Kind::leaves)
      left[event->worker] = true;
    else
      answer(event->worker, event->note, session_.experiment.config.epochs);
  }
}

// The shards of the split, each in the order and batches that its worker would read it.
void RoundManager::open(std::uint64_t round, double aside_s) {
  const int epoch = static_cast<int>(round);
  std::vector<std::vector<std::uint32_t>> tasks(session_.crew().workers);
  for (int worker = 0; worker < std::ssize(tasks); ++worker)
    for (std::size_t step = 0; step < plan_.steps(epoch); ++step) {
      const auto batch = plan_.indices(worker, epoch, step);
      tasks[worker].insert(tasks[worker].end(), batch.begin(), batch.end());
    }
  for (Came& came : came_) came.whole = false;
  proof_ = strategy_.proof_of(view());
  given_ = files_ ? nullptr : std::make_shared<const ModelCopy>(view());
  if (files_) files_->write(round, view());
  const RoundTerms& terms = strategy_.terms();
  board_->open(round, tasks, {terms.give_up_s, terms.reissue});
  tell_all({round, aside_s, 0});
}

bool RoundManager::complete(const RoundState& state) const {
  if (!state.settled()) return false;
  for (std::size_t k = 0; k < came_.size(); ++k)
    if (state.tasks[k].kind == TaskState::Kind::reported && !came_[k].whole) return false;
  return true;
}

std::vector<RoundResult> RoundManager::gather(std::uint64_t round) {
  for (;;) {
    session_.check_stopped();
    const RoundState state = board_->look();
    if (complete(state)) return results_of(state);
    if (mail_.present() == 0)
      throw TransportError(TransportError::Kind::dead, 0,
                           fmt::format("all {} workers are gone in epoch {}: nobody is left to "
                                       "train",
                                       session_.crew().workers, round + 1));
    if (state.has_open()) wake_idle(state);
    // What others ask for needs no look at the book.
    const double until = now() + std::clamp(state.next_in_s, kLeastWaitSeconds,
                                            session_.rank().peers.patience_seconds());
    for (bool asked = true; asked;) {
      const auto event = mail_.next({until});
      if (event) handle(*event, round);
      asked = event && event->kind == ManagerMail::Event::Kind::note &&
              event->note.kind == RoundNote::Kind::wants;
    }
  }
}

void RoundManager::handle(const ManagerMail::Event& event, std::uint64_t round) {
  using Kind = ManagerMail::Event::Kind;
  if (event.kind == Kind::gone) return lose(event.worker);
  if (event.kind == Kind::model) {
    const int task = std::exchange(delivers_[event.worker], -1);
    came_[task].whole = true;
    return;
  }
  if (event.note.kind == RoundNote::Kind::wants) return answer(event.worker, event.note, round);
  take_in(event.worker, event.note, round);
}

void RoundManager::answer(int worker, const RoundNote& wants, std::uint64_t round) {
  const bool now = wants.round == round;
  const auto kind = now ? RoundNote::Kind::granted : RoundNote::Kind::refused;
  mail_.answer(worker, {kind, wants.task, round, proof_}, now ? given_ : nullptr);
}

// The book has taken it for the task's one result, and waits for it: so it is of this round.
void RoundManager::take_in(int worker, const RoundNote& note, std::uint64_t round) {
  if (note.round != round || note.task < 0 || note.task >= std::ssize(came_))
    throw InternalError(fmt::format("rank {} hands in task {} of round {} in round {}", worker,
                                    note.task, note.round, round));
  Came& came = came_[note.task];
  came.proof = note.proof;
  if (!came.model) came.model = std::make_unique<ModelCopy>(view());
  if (files_) {
    // It was written before it was handed in.
    if (!files_->read_result(round, note.task, worker, came.model->view()))
      files_->throw_not_shared(fmt::format("rank {}'s result of epoch {}", worker, round + 1));
    came.whole = true;
    return;
  }
  delivers_[worker] = note.task;
  mail_.take(worker, came.model->view());
}

void RoundManager::lose(int worker) {
  board_->bury(worker);
  // What it had reported and not delivered is lost with it.
  const RoundState state = board_->look();
  for (int k = 0; k < std::ssize(came_); ++k)
    if (state.tasks[k].kind == TaskState::Kind::reported && state.tasks[k].holder == worker &&
        !came_[k].whole)
      board_->take_back(k);
  delivers_[worker] = -1;
}

void RoundManager::wake_idle(const RoundState& state) {
  std::vector<bool> busy(session_.crew().workers);
  for (const TaskState& task : state.tasks)
    if (task.kind == TaskState::Kind::out) busy[task.holder] = true;
  for (int worker = 0; worker < std::ssize(busy); ++worker)
    if (!busy[worker]) mail_.word(worker, {state.round, 0, 0});
}

std::vector<RoundResult> RoundManager::results_of(const RoundState& state) {
  std::vector<RoundResult> results;
  for (int k = 0; k < std::ssize(state.tasks); ++k) {
    const TaskState& task = state.tasks[k];
    reissued_ += static_cast<std::uint64_t>(std::max(0, task.issues - 1));
    if (task.kind == TaskState::Kind::dropped) ++dropped_;
    if (task.kind != TaskState::Kind::reported) continue;
    results.push_back(
        {k, task.holder, task.loss, task.samples, came_[k].model->view(), came_[k].proof});
  }
  if (results.empty())
    throw Error(fmt::format("epoch {}: none of {} tasks came back; give up later, or reissue them",
                            state.round + 1, state.tasks.size()));
  return results;
}

// All steps of the epoch at once, with what came of them.
void RoundManager::log(int epoch, const std::vector<RoundResult>& results) {
  const std::uint64_t taken = plan_.steps_before(epoch + 1);
  const double training_s = session_.clock().training_s();
  std::vector<std::size_t> samples(session_.crew().workers);
  for (std::uint64_t step = plan_.steps_before(epoch); step + 1 < taken; ++step)
    session_.log().stepped({step, epoch, samples}, 0, training_s);
  double loss = 0, count = 0;
  for (const RoundResult& result : results) {
    samples[result.worker] += result.samples;
    loss += result.loss * static_cast<double>(result.samples);
    count += static_cast<double>(result.samples);
  }
  session_.log().loss(count > 0 ? loss / count : 0, static_cast<std::size_t>(count));
  session_.log().stepped({taken - 1, epoch, samples}, 0, training_s);
  session_.recorder().stepped(taken);
  if (session_.watcher())
    session_.watcher()->step(session_.log().progress(session_.experiment.steps));
}

void RoundManager::score(int epoch, const std::vector<RoundResult>& results) {
  // All that travels comes by here.
  const Traffic moved = session_.moved().exchanged();
  Score score =
      ProgressLog::score_from(session_.log().totals(moved.bytes_sent + moved.bytes_received),
                              plan_.steps_before(epoch + 1), true, session_.clock().training_s());
  if (!session_.experiment.hollow()) {
    const Values weights = session_.replica().weights();
    evaluate(alone_, session_.learner(), session_.experiment, model(), floats(weights), true,
             score);
    score.consensus_distance = spread(weights, results);
  }
  session_.keep(score, session_.log().samples(), session_.leads());
}

void RoundManager::complete(TrainResult& result) {
  result.tasks_reissued = reissued_;
  result.tasks_dropped = dropped_;
  if (files_) files_->remove_all();
}

}  // namespace lockstep
