#include "train/rounds.h"

#include <algorithm>

#include "strategies/round_strategy.h"
#include "train/round_manager.h"
#include "train/weight_files.h"

namespace lockstep {
namespace {

class RoundWorker {
 public:
  explicit RoundWorker(Session& session)
      : session_(session),
        strategy_(in_rounds(session.strategy())),
        board_(session.open_tasks()),
        mail_(session.rank().peers, session.crew().workers),
        plan_(session.experiment.plan),
        files_(files_of(session)) {}

  void run() {
    for (;;) {
      session_.check_stopped();
      const TaskOffer offer = board_->take();
      if (offer.kind == TaskOffer::Kind::over) return mail_.leave();
      if (offer.kind == TaskOffer::Kind::task)
        work(offer.task);
      else
        wait();
    }
  }

 private:
  // Until there may be something to do. Only for others that still train is time that counts.
  void wait() {
    const double start = now();
    const RoundWord word = mail_.await_word();
    session_.clock().between_steps(0, std::max(0.0, now() - start - word.aside_s));
  }

  void work(const Task& task) {
    if (!load(task)) return;
    const int epoch = static_cast<int>(task.round);
    const std::size_t batch = session_.experiment.full_batch(task.number);
    session_.replica().forget();
    session_.learner().open_task(task.indices, batch, epoch);
    std::vector<std::size_t> samples(session_.crew().workers);
    double loss = 0;
    const std::vector<Slice> batches = pieces({0, task.indices.size()}, batch);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      session_.check_stopped();
      if (is_over(task.round)) return;
      samples[session_.rank().rank()] = batches[i].count;
      loss += session_.take_of_task({plan_.steps_before(epoch) + i, epoch, samples}, i) *
              static_cast<double>(batches[i].count);
    }
    const double count = static_cast<double>(task.indices.size());
    hand_in(task, count > 0 ? loss / count : 0);
  }

  // Has a word come that this round is over, so that nobody waits for its results any more?
  bool is_over(std::uint64_t round) {
    while (const auto word = mail_.look_for_word())
      if (word->over || word->round != round) return true;
    return false;
  }

  // The round's model. False: the round is over.
  bool load(const Task& task) {
    const double start = now();
    const RoundModel into = model();
    const auto ask = [&] { return mail_.ask(task.round, task.number, by_message(into)); };
    const RoundNote answer = ask();
    if (answer.kind != RoundNote::Kind::granted) return false;
    if (files_ && !files_->read(task.round, into)) {
      // It is there while the round is open, which may have ended since.
      if (ask().kind != RoundNote::Kind::granted) return false;
      files_->throw_not_shared(fmt::format("the model of epoch {}", task.round + 1));
    }
    session_.learner().set_statistics(statistics_);
    strategy_.starts_from(session_.replica(), model().statistics, answer.proof);
    session_.clock().between_steps(now() - start, 0);
    return true;
  }

  void hand_in(const Task& task, double loss) {
    const double start = now();
    const int me = session_.rank().rank();
    const RoundModel result = model();
    const RoundProof proof = strategy_.comes_with(session_.replica(), result.statistics);
    if (files_) files_->write_result(task.round, task.number, me, result);
    if (board_->report({task.round, task.number, loss, task.indices.size()}))
      mail_.hand_in(task.round, task.number, proof, by_message(result));
    else if (files_)
      files_->remove_result(task.round, task.number, me);
    session_.clock().between_steps(now() - start, 0);
  }

  // This worker's, as it is now.
  RoundModel model() {
    statistics_ = session_.learner().statistics();
    return {session_.replica().weights(),
            Values(statistics_.data(), statistics_.size(), Type::fp32)};
  }
  std::optional<RoundModel> by_message(const RoundModel& model) const {
    return files_ ? std::nullopt : std::optional(model);
  }
  double now() const { return session_.rank().clock.now(); }

  Session& session_;
  RoundStrategy& strategy_;
  const std::unique_ptr<TaskBoard> board_;
  WorkerMail mail_;
  Plan plan_;
  const std::optional<WeightFiles> files_;
  std::vector<float> statistics_;
};

}  // namespace

WorkerOutcome run_rounds(Session& session) {
  session.start();
  if (session.crew().works()) {
    RoundWorker(session).run();
    session.meet_the_living();
    return session.finish();
  }
  RoundManager manager(session);
  manager.run();
  session.meet_the_living();
  if (!session.experiment.hollow()) session.write(manager.model());
  WorkerOutcome outcome = session.finish();
  manager.complete(outcome.result);
  return outcome;
}

}  // namespace lockstep
