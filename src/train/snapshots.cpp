#include "train/snapshots.h"

#include <algorithm>
#include <utility>

#include "strategies/audit.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kDue = channels::kSnapshotDue;
constexpr double kDozeSeconds = 0.02;

}  // namespace

Snapshots::Snapshots(Session& session)
    : session_(session), due_(session.rank().peers, kDue, session.crew().workers) {
  if (!session.crew().works() || session.experiment.hollow()) return;
  lane_ = std::make_shared<ScoreLane>(session.rank(), session.experiment, session.pacemaker(),
                                      session.replica().weights().count(),
                                      session.learner().statistics().size(),
                                      [&session](Score& score, std::uint64_t samples, bool here) {
                                        session.keep(score, samples, here);
                                      });
}

Snapshots::~Snapshots() {
  if (!lane_) return;
  lane_->abandon();
  ring();
}

void Snapshots::go() {
  if (!lane_) return;
  lane_->go();
  if (session_.first_worker() == session_.rank().rank()) become_scorer();
  if (job_ == 0)
    job_ = session_.rank().scoring->post([lane = lane_](Transport& t) { lane->work(t); });
  ring();
}

void Snapshots::become_scorer() {
  if (!lane_->scores()) lane_->scores_with(session_.open_examiner());
}

std::vector<int> Snapshots::living() const {
  const std::vector<int> dead = session_.rank().peers.dead_peers();
  std::vector<int> living;
  for (int r = 0; r < session_.crew().workers; ++r)
    if (!std::ranges::binary_search(dead, r)) living.push_back(r);
  return living;
}

void Snapshots::stepped(std::uint64_t taken, bool may_be_last) {
  if (!lane_) return;
  if (lane_->failed()) session_.rank().scoring->wait(job_);
  lane_->take_finished();
  const std::vector<int> here = living();
  const int self = session_.rank().rank();
  if (here.front() == self && !lane_->scores()) {
    become_scorer();
    ring();
  }
  if (const std::uint64_t wanted = lane_->take_wanted(); wanted > 0 && !lane_->knows(wanted))
    put(wanted, false);
  if (session_.pacemaker(here) != self) {
    while (const auto due = due_.hear())
      if (!lane_->knows(due->count)) put(due->count, false);
    return;
  }
  // What the run has come to is scored when all have met.
  if (!session_.score_due(taken) || taken == session_.last_step() || may_be_last) return;
  // Evaluation may lag behind: then the score waits, and with it this worker, out of training time.
  // In simulation it takes no time.
  Clock& clock = session_.rank().clock;
  const double until = session_.rank().peers.patience().at;
  const auto is_held_up = [&](const std::vector<int>& living) {
    return std::ranges::binary_search(living, lane_->held_up_by()) && clock.now() < until;
  };
  while (!session_.experiment.simulation && clock.decided(is_held_up(living())))
    session_.doze(kDozeSeconds);
  // Who has no copy yet may wait for this worker by the strategy's rule, so this one does not wait.
  if (!clock.decided(lane_->has_room())) {
    ++left_out_;
    return;
  }
  put(taken, true);
  due_.tell(taken);
}

void Snapshots::put(std::uint64_t steps, bool paces) {
  lane_->put(copy_of(steps, paces));
  ring();
}

std::shared_ptr<const ScoreCopy> Snapshots::copy_of(std::uint64_t steps, bool paces) {
  Strategy& strategy = session_.strategy();
  const std::span<const float> weights = floats(session_.replica().weights());
  auto copy = std::make_shared<ScoreCopy>();
  copy->paces = paces;
  copy->weights.assign(weights.begin(), weights.end());
  copy->statistics = session_.learner().statistics();
  if (const Audit* audit = strategy.parts().audit)
    audit->prove_own(Values(copy->weights.data(), copy->weights.size(), Type::fp32),
                     session_.log().own_samples());
  if (paces) {
    copy->model.resize(weights.size());
    if (!session_.apart().fetch_model(Values(copy->model.data(), copy->model.size(), Type::fp32)))
      copy->model.clear();
  }
  const Traffic moved = session_.moved().exchanged();
  // What servers send is what workers receive of them; they have no steps at which to be asked.
  const bool servers = session_.crew().servers > 0;
  const std::vector<double> totals =
      session_.log().totals(moved.bytes_sent + (servers ? moved.bytes_received : 0));
  loss_sum_ += totals[0];
  loss_samples_ += totals[1];
  ScoreCopy::About& about = copy->about;
  about.steps = steps;
  about.run_samples = session_.log().samples();
  about.ends_epoch = session_.ends_epoch(steps) ? 1 : 0;
  about.has_model = copy->model.empty() ? 0 : 1;
  about.left_out = left_out_;
  about.training_s = session_.clock().training_s();
  about.mass = strategy.mass();
  about.bytes = totals[2];
  about.samples = static_cast<double>(session_.log().own_samples());
  about.loss_sum = loss_sum_;
  about.loss_samples = loss_samples_;
  if (session_.experiment.config.audit) {
    about.weights = projected(copy->weights);
    about.statistics = projected(copy->statistics);
    about.model = projected(copy->model);
  }
  return copy;
}

void Snapshots::rest() {
  if (!lane_) return;
  lane_->rest(copy_of(session_.log().taken(), false));
  ring();
}

void Snapshots::meet(std::uint64_t steps, bool over, bool scored) {
  const int self = session_.rank().rank();
  for (;;) {
    const int scorer = session_.first_worker();
    if (lane_ && (over || session_.experiment.has_open_end())) {
      lane_->met(copy_of(steps, scorer == self));
      ring();
    }
    if (lane_ && scorer == self) score_all(steps, over, scored);
    session_.meet_the_living();
    if (session_.first_worker() == scorer) break;
  }
  if (!lane_) return;
  lane_->close();
  ring();
  if (job_ > 0) session_.rank().scoring->wait(std::exchange(job_, 0));
  lane_->take_finished();
  const ScoreLane::Losses in_scores = lane_->take_scored_losses();
  session_.log().take_back(std::exchange(loss_sum_, 0) - in_scores.sum,
                           std::exchange(loss_samples_, 0) - in_scores.samples);
}

void Snapshots::score_all(std::uint64_t steps, bool over, bool scored) {
  become_scorer();
  lane_->finish(over);
  ring();
  if (job_ > 0) session_.rank().scoring->wait(std::exchange(job_, 0));
  if (over) write(*gathered_by(&ScoreLane::gather_met));
  while (const auto next = gathered_by(&ScoreLane::gather_next)) score(*next);
  const bool is_due = over ? !scored
                           : session_.experiment.has_open_end() && session_.score_due(steps) &&
                                 !lane_->has_scored(steps);
  // Once more, now that it is known which losses are part of earlier scores.
  if (is_due && !lane_->has_scored_met()) score(*gathered_by(&ScoreLane::gather_met));
}

void Snapshots::write(const ScoreLane::Gathered& last) {
  session_.write(last.model);
  if (last.left_out > 0 && session_.watcher())
    session_.watcher()->notice(
        fmt::format("{} scores were left out, because too many waited for copies of slower workers",
                    last.left_out));
}

void Snapshots::score(const ScoreLane::Gathered& gathered) {
  do_job([finished = lane_->score(gathered)](ScoreLane& lane, Transport& t) {
    lane.tell(t, finished);
  });
}

std::optional<ScoreLane::Gathered> Snapshots::gathered_by(Job job) {
  do_job([job](ScoreLane& lane, Transport& t) { (lane.*job)(t); });
  return lane_->take_gathered();
}

void Snapshots::do_job(const std::function<void(ScoreLane&, Transport&)>& what) {
  Background& jobs = *session_.rank().scoring;
  jobs.wait(jobs.post([lane = lane_, what](Transport& t) { what(*lane, t); }));
}

}  // namespace lockstep
