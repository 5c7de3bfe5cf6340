#include "train/apart.h"

#include <algorithm>

#include "train/session.h"
#include "train/snapshots.h"

namespace lockstep {
namespace {

// The steps up to which ranks go apart before they meet: none, if a resumed run has had them all.
std::uint64_t next_meeting(const Session& session, std::uint64_t first) {
  if (first >= session.experiment.steps) return first;
  const std::uint64_t every = session.experiment.config.checkpoint_every;
  const std::uint64_t next = every > 0 ? (first / every + 1) * every : 0;
  return session.checkpoint_due(next) ? std::min(next, session.experiment.steps)
                                      : session.experiment.steps;
}

// From one meeting to the next.
class Leg {
 public:
  Leg(Session& session, Snapshots& snapshots)
      : session_(session), snapshots_(snapshots), works_(session.crew().works()) {}

  // This rank's steps from `first` up to `end`, or until the run is over or told to stop; all have
  // met again when it returns, with how many steps this rank has taken in all (a server: `first`).
  // Adds to `rested_s` how long it then waited for the others.
  std::uint64_t go(std::uint64_t first, std::uint64_t end, bool to_the_end, double& rested_s) {
    const Experiment& experiment = session_.experiment;
    start(first, end);
    std::uint64_t taken = first;
    const auto goes_on = [&] {
      return taken < end && (to_the_end || !(session_.is_over(taken) || session_.is_to_rest()));
    };
    for (bool more = works_ && goes_on(); more;) {
      session_.take(taken++);
      more = goes_on();
      // At the end of a leg others may know that an open run is over.
      const bool all_meet = taken == end && !to_the_end && experiment.has_open_end();
      snapshots_.stepped(taken, !more && (all_meet || session_.is_over(taken)));
    }
    rested_s += rest(taken, end == experiment.steps && works_ && session_.is_over(taken));
    return taken;
  }

  // When all know that the run is over, after a leg at the end of which not everybody could:
  // another one without steps, in which workers hand over what they have kept.
  void hand_over(std::uint64_t first, std::uint64_t taken) {
    start(first, first);
    rest(taken, works_);
  }

 private:
  void start(std::uint64_t first, std::uint64_t end) {
    if (!works_) return session_.serve(first, end);
    session_.apart().go();
    snapshots_.go();
  }
  // Returns how long it took.
  double rest(std::uint64_t taken, bool hands_over) {
    if (hands_over) session_.apart().hand_over(session_.replica(), taken);
    if (works_) snapshots_.rest();
    return session_.rest();
  }

  Session& session_;
  Snapshots& snapshots_;
  const bool works_;
};

}  // namespace

WorkerOutcome run_apart(Session& session) {
  Snapshots snapshots(session);
  Leg leg(session, snapshots);
  const bool works = session.crew().works();
  std::uint64_t step = session.start();
  const bool scored = session.log().has_scored(session.last_step());  // a run that was over before
  bool over = false;
  // Once at least: what the run has come to is asked of servers when all rest.
  do {
    std::uint64_t end = next_meeting(session, step);
    double rested_s = 0;
    const std::uint64_t taken = leg.go(step, end, false, rested_s);
    const std::optional<std::uint64_t> stops_at = session.stops_at(taken);
    if (stops_at) {
      // A checkpoint is of as many steps on every rank, so who is behind makes up for it first.
      end = *stops_at;
      leg.go(works ? taken : step, end, true, rested_s);
    }
    if (!works) session.served(step, end);
    over = stops_at ? end == session.experiment.steps : session.meets_at_the_end(taken, end);
    if (over && end != session.experiment.steps) leg.hand_over(step, taken);
    // Who goes on has waited for the others; who is done with the run has not.
    if (works && !over) session.clock().between_steps(0, rested_s);
    snapshots.meet(over ? session.last_step() : end, over, scored);
    // Half of a run can't be resumed: who is lost has no part in the checkpoint, and where workers
    // have ended apart there is no step that all have taken.
    const bool all_have_taken_it = !over || !session.experiment.has_open_end();
    if (end > step && all_have_taken_it && (stops_at || session.checkpoint_due(end)) &&
        session.lost().empty()) {
      session.together();
      session.save(end);
    }
    step = end;
    if (stops_at && !over) throw Stopped("the run was stopped");
  } while (!over);
  return session.finish();
}

}  // namespace lockstep
