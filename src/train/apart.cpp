// Workers that go apart, and when they are scored.
#include <algorithm>
#include <utility>

#include "collectives/announcement.h"
#include "collectives/gather.h"
#include "strategies/audit/audit.h"
#include "train/score_lane.h"
#include "train/worker.h"
#include "transport/channels.h"

namespace lockstep {
namespace {

constexpr Tag kDue = channels::kSnapshotDue;
constexpr double kDozeSeconds = 0.02;

Pacemaker pacemaker_of(const Plan& plan) {
  return [shares = plan.samples_by_worker()](const std::vector<int>& workers) {
    return *std::ranges::max_element(workers, {}, [&](int w) { return shares[w]; });
  };
}

// Scores a run whose workers go apart, without stopping anybody: of the living workers the one with
// the most samples sets the pace (the lowest of several). An epoch has as many steps as the
// pacemaker needs for its own samples, so the epoch of a score is over for it when it has had all
// of them. Whenever a score is due by its own steps it takes a copy of its weights (and asks
// servers for the model, where they have it) and tells the other workers, which take a copy after
// their next step. The lowest worker that lives scores the copies on its lane of scores: see
// score_lane.h.
//
// The model at the end of the run is copied and scored when all have met. Where a run has an open
// end, nobody knows before that which meeting is the last, so what is due at any of them is scored
// then.
class ApartScores {
 public:
  ApartScores(const Trainee& trainee, Timetable& timetable, Recorder& recorder, RunState& state)
      : trainee_(trainee),
        timetable_(timetable),
        recorder_(recorder),
        state_(state),
        pacemaker_(pacemaker_of(trainee.experiment.plan)),
        due_(trainee.rank.peers, kDue, trainee.crew.workers) {
    if (!trainee.crew.works() || trainee.experiment.hollow()) return;
    lane_ = std::make_shared<ScoreLane>(trainee.rank, trainee.experiment, pacemaker_,
                                        trainee.replica.weights().count(),
                                        trainee.learner.statistics().size(),
                                        [this](Score& score, std::uint64_t samples, bool here) {
                                          recorder_.keep(state_.log, score, samples, here);
                                        });
  }

  ~ApartScores() {
    if (!lane_) return;
    lane_->abandon();
    ring();
  }
  ApartScores(const ApartScores&) = delete;

  int pacemaker(const std::vector<int>& workers) const { return pacemaker_(workers); }
  // On workers, before the first step after all have met.
  void go(const Generation& members) {
    if (!lane_) return;
    lane_->go();
    if (members.first_worker() == trainee_.rank.rank()) become_scorer();
    if (job_ == 0)
      job_ = trainee_.rank.scoring->post([lane = lane_](Transport& t) { lane->work(t); });
    ring();
  }
  // After each step of this worker. `may_be_last`: of the run, as far as this worker knows.
  void stepped(std::uint64_t taken, bool may_be_last) {
    if (!lane_) return;
    if (lane_->failed()) trainee_.rank.scoring->wait(job_);
    lane_->take_finished();
    const std::vector<int> here = living();
    const int self = trainee_.rank.rank();
    if (here.front() == self && !lane_->scores()) {
      become_scorer();
      ring();
    }
    if (const std::uint64_t wanted = lane_->take_wanted(); wanted > 0 && !lane_->knows(wanted))
      put(wanted, false);
    if (pacemaker_(here) != self) {
      while (const auto due = due_.hear())
        if (!lane_->knows(due->count)) put(due->count, false);
      return;
    }
    // What the run has come to is scored when all have met.
    if (!timetable_.score_due(taken) || taken == timetable_.last_step() || may_be_last) return;
    // Evaluation may lag behind: then the score waits, and with it this worker, out of training
    // time. In simulation it takes no time.
    Clock& clock = trainee_.rank.clock;
    const double until = trainee_.rank.peers.patience().at;
    const auto is_held_up = [&](const std::vector<int>& living) {
      return std::ranges::binary_search(living, lane_->held_up_by()) && clock.now() < until;
    };
    while (!trainee_.experiment.simulation && clock.decided(is_held_up(living())))
      doze(trainee_.rank, kDozeSeconds);
    // A worker that has no copy yet may wait for this one by the strategy's rule, so this one goes
    // on.
    if (!clock.decided(lane_->has_room())) {
      ++left_out_;
      return;
    }
    put(taken, true);
    due_.tell(taken);
  }

  // After its last step before all meet.
  void rest() {
    if (!lane_) return;
    lane_->rest(copy_of(state_.log.taken(), false));
    ring();
  }
  // Collective over all that are present, when all have met after that many steps of the pacemaker:
  // what was due is scored and kept. `over`: the model that the run has come to is first written,
  // and scored unless it was `scored` before. A rank that is lost meanwhile stops nobody: returns
  // those that are left.
  Generation meet(Generation members, std::uint64_t steps, bool over, bool scored) {
    const int self = trainee_.rank.rank();
    for (;;) {
      const int scorer = members.first_worker();
      if (lane_ && (over || trainee_.experiment.has_open_end())) {
        lane_->met(copy_of(steps, scorer == self));
        ring();
      }
      if (lane_ && scorer == self) score_all(members, steps, over, scored);
      members = members.survivors();
      if (members.first_worker() == scorer) break;
    }
    if (!lane_) return members;
    lane_->close();
    ring();
    if (job_ > 0) trainee_.rank.scoring->wait(std::exchange(job_, 0));
    lane_->take_finished();
    const ScoreLane::Losses in_scores = lane_->take_scored_losses();
    state_.log.take_back(std::exchange(loss_sum_, 0) - in_scores.sum,
                         std::exchange(loss_samples_, 0) - in_scores.samples);
    return members;
  }

 private:
  // The workers that live, as far as this worker knows.
  std::vector<int> living() const {
    const std::vector<int> dead = trainee_.rank.peers.dead_peers();
    std::vector<int> living;
    for (int r = 0; r < trainee_.crew.workers; ++r)
      if (!std::ranges::binary_search(dead, r)) living.push_back(r);
    return living;
  }
  std::shared_ptr<const ScoreCopy> copy_of(std::uint64_t steps, bool paces) {
    Strategy& strategy = trainee_.strategy;
    const std::span<const float> weights = floats(trainee_.replica.weights());
    auto copy = std::make_shared<ScoreCopy>();
    copy->paces = paces;
    copy->weights.assign(weights.begin(), weights.end());
    copy->statistics = trainee_.learner.statistics();
    if (const Audit* audit = strategy.parts().audit)
      audit->prove_own(Values(copy->weights.data(), copy->weights.size(), Type::fp32),
                       state_.log.own_samples());
    if (paces) {
      copy->model.resize(weights.size());
      if (!trainee_.strategy.parts().apart->fetch_model(
              Values(copy->model.data(), copy->model.size(), Type::fp32)))
        copy->model.clear();
    }
    const Traffic moved = recorder_.exchanged();
    // What servers send is what workers receive of them; they have no steps at which to be asked.
    const bool servers = trainee_.crew.servers > 0;
    const std::vector<double> totals =
        state_.log.totals(moved.bytes_sent + (servers ? moved.bytes_received : 0));
    loss_sum_ += totals[0];
    loss_samples_ += totals[1];
    ScoreCopy::About& about = copy->about;
    about.steps = steps;
    about.run_samples = state_.log.samples();
    about.ends_epoch = timetable_.ends_epoch(steps) ? 1 : 0;
    about.has_model = copy->model.empty() ? 0 : 1;
    about.left_out = left_out_;
    about.training_s = state_.clock.training_s();
    about.mass = strategy.mass();
    about.bytes = totals[2];
    about.samples = static_cast<double>(state_.log.own_samples());
    about.loss_sum = loss_sum_;
    about.loss_samples = loss_samples_;
    if (trainee_.experiment.config.audit) {
      about.weights = projected(copy->weights);
      about.statistics = projected(copy->statistics);
      about.model = projected(copy->model);
    }
    return copy;
  }

  void put(std::uint64_t steps, bool paces) {
    lane_->put(copy_of(steps, paces));
    ring();
  }
  void become_scorer() {
    if (!lane_->scores())
      lane_->scores_with(make_torch_examiner(trainee_.experiment, trainee_.options.turns));
  }
  // Where this worker is the scorer.
  void score_all(const Generation& members, std::uint64_t steps, bool over, bool scored) {
    become_scorer();
    lane_->finish(over);
    ring();
    if (job_ > 0) trainee_.rank.scoring->wait(std::exchange(job_, 0));
    if (over) write(members, *gathered_by(&ScoreLane::gather_met));
    while (const auto next = gathered_by(&ScoreLane::gather_next)) score(*next);
    const bool is_due = over ? !scored
                             : trainee_.experiment.has_open_end() && timetable_.score_due(steps) &&
                                   !lane_->has_scored(steps);
    // Once more, now that it is known which losses are part of earlier scores.
    if (is_due && !lane_->has_scored_met()) score(*gathered_by(&ScoreLane::gather_met));
  }

  void write(const Generation& members, const ScoreLane::Gathered& last) {
    if (!members.leads()) return;
    recorder_.keep_model(trainee_.learner, last.model);
    if (last.left_out > 0 && trainee_.options.watcher)
      trainee_.options.watcher->notice(fmt::format(
          "{} scores were left out, because too many waited for copies of slower workers",
          last.left_out));
  }
  void score(const ScoreLane::Gathered& gathered) {
    do_job([finished = lane_->score(gathered)](ScoreLane& lane, Transport& t) {
      lane.tell(t, finished);
    });
  }
  using Job = void (ScoreLane::*)(Transport&);
  std::optional<ScoreLane::Gathered> gathered_by(Job job) {
    do_job([job](ScoreLane& lane, Transport& t) { (lane.*job)(t); });
    return lane_->take_gathered();
  }
  void do_job(const std::function<void(ScoreLane&, Transport&)>& what) {
    Background& jobs = *trainee_.rank.scoring;
    jobs.wait(jobs.post([lane = lane_, what](Transport& t) { what(*lane, t); }));
  }
  void ring() { trainee_.rank.scoring->ring(); }

  const Trainee trainee_;
  Timetable& timetable_;
  Recorder& recorder_;
  RunState& state_;
  const Pacemaker pacemaker_;
  Announcement due_;                        // a pacemaker's steps that are to be scored
  std::shared_ptr<ScoreLane> lane_;         // none: nothing is scored here
  std::uint64_t job_ = 0;                   // while it runs
  double loss_sum_ = 0, loss_samples_ = 0;  // in copies since all last met
  std::uint32_t left_out_ = 0;              // scores, by this worker as pacemaker
};
// From one meeting to the next.
class Leg {
 public:
  Leg(const Trainee& trainee, Stepper& worker, Timetable& timetable, ApartScores& scores)
      : trainee_(trainee),
        worker_(worker),
        timetable_(timetable),
        scores_(scores),
        works_(trainee.crew.works()) {}

  // This rank's steps from `first` up to `end`, or until the run is over or told to stop. All have
  // met again when it returns, and `members` are they; returns how many steps this rank has taken
  // in all (a server: `first`). Adds to `rested_s` how long it then waited for the others.
  std::uint64_t go(Generation& members, std::uint64_t first, std::uint64_t end, bool to_the_end,
                   double& rested_s) {
    start(members, first, end);
    std::uint64_t taken = first;
    const auto goes_on = [&] {
      return taken < end && (to_the_end || !(timetable_.is_over(taken) || timetable_.is_to_rest()));
    };
    for (bool more = works_ && goes_on(); more;) {
      worker_.take(members, taken++);
      more = goes_on();
      // At the end of a leg others may know that an open run is over.
      const bool all_meet = taken == end && !to_the_end && trainee_.experiment.has_open_end();
      scores_.stepped(taken, !more && (all_meet || timetable_.is_over(taken)));
    }
    rest(members, taken, end == trainee_.experiment.steps && works_ && timetable_.is_over(taken),
         rested_s);
    return taken;
  }

  // When all know that the run is over, after a leg at the end of which not everybody could:
  // another one without steps, in which workers hand over what they have kept.
  void hand_over(Generation& members, std::uint64_t first, std::uint64_t taken) {
    double rested_s = 0;
    start(members, first, first);
    rest(members, taken, works_, rested_s);
  }

 private:
  void start(const Generation& members, std::uint64_t first, std::uint64_t end) {
    if (!works_) return worker_.serve(first, end);
    trainee_.strategy.parts().apart->go();
    scores_.go(members);
  }
  void rest(Generation& members, std::uint64_t taken, bool hands_over, double& rested_s) {
    if (hands_over) trainee_.strategy.parts().apart->hand_over(trainee_.replica, taken);
    if (works_) scores_.rest();
    members = worker_.rest(members, rested_s);
  }

  const Trainee trainee_;
  Stepper& worker_;
  Timetable& timetable_;
  ApartScores& scores_;
  const bool works_;
};

// Collective over those present, which have met after `taken` steps of this rank where `end` were
// due. True: the run is over, and the timetable knows its last step.
bool is_over_for_all(const Trainee& trainee, Timetable& timetable, Recorder& recorder,
                     const ApartScores& scores, const Generation& members, const RunState& state,
                     std::uint64_t taken, std::uint64_t end) {
  const Experiment& experiment = trainee.experiment;
  if (!experiment.has_open_end()) return end == experiment.steps;
  Transport& present = members.present();
  const auto rows = all_rows(present, {static_cast<double>(taken)});
  std::vector<std::uint64_t> steps(experiment.config.workers);  // by worker
  for (int r = 0; r < present.size(); ++r)
    if (const int rank = present.job_rank(r); rank < experiment.config.workers)
      steps[rank] = static_cast<std::uint64_t>(rows[r][0]);
  std::uint64_t least = end, most = 0;
  for (const int worker : members.working()) {
    least = std::min(least, steps[worker]);
    most = std::max(most, steps[worker]);
  }
  if (!trainee.crew.works()) recorder.stepped(most);
  if (least == end) {
    if (trainee.crew.works()) timetable.met(members.workers(), state.log.own_samples());
    return false;
  }
  timetable.end_at(steps[scores.pacemaker(members.working())]);
  return true;
}

}  // namespace

void run_apart(const Trainee& trainee, Stepper& worker, Timetable& timetable, Recorder& recorder,
               Checkpoints& checkpoints, Generation& members, RunState& state,
               std::uint64_t first) {
  const Experiment& experiment = trainee.experiment;
  ApartScores scores(trainee, timetable, recorder, state);
  Leg leg(trainee, worker, timetable, scores);
  const bool works = trainee.crew.works();
  const bool scored = state.log.has_scored(timetable.last_step());  // a run that was over before
  std::uint64_t step = first;
  bool over = false;
  // Once at least: servers are asked for the model when all rest.
  do {
    std::uint64_t end = timetable.next_meeting(step);
    double rested_s = 0;
    const std::uint64_t taken = leg.go(members, step, end, false, rested_s);
    const std::optional<std::uint64_t> stops_at = timetable.stops_at(members.present(), taken);
    if (stops_at) {
      // A checkpoint is of as many steps on every rank, so workers that are behind make up for it
      // first.
      end = *stops_at;
      leg.go(members, works ? taken : step, end, true, rested_s);
    }
    if (!works) worker.served(step, end);
    over = stops_at
               ? end == experiment.steps
               : is_over_for_all(trainee, timetable, recorder, scores, members, state, taken, end);
    if (over && end != experiment.steps) leg.hand_over(members, step, taken);
    // A worker that goes on has waited for the others; one that is done with the run has not.
    if (works && !over) state.clock.between_steps(0, rested_s);
    members = scores.meet(std::move(members), over ? timetable.last_step() : end, over, scored);
    // Half of a run can't be resumed: ranks that are lost have no part in the checkpoint, and where
    // workers have ended apart there is no step that all have taken.
    const bool all_have_taken_it = !over || !experiment.has_open_end();
    if (end > step && all_have_taken_it && (stops_at || timetable.checkpoint_due(end)) &&
        members.lost().empty()) {
      members.meet();
      checkpoints.save(members, state, end);
    }
    step = end;
    if (stops_at && !over) throw Stopped("the run was stopped");
  } while (!over);
}

}  // namespace lockstep
