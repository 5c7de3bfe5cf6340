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

}  // namespace

WorkerOutcome run_apart(Session& session) {
  Snapshots snapshots(session);
  const bool works = session.crew().works();
  std::uint64_t step = session.start();
  bool over = false;
  // Once at least: what the run has come to is asked of servers when all rest.
  do {
    const std::uint64_t end = next_meeting(session, step);
    if (works)
      session.strategy().go();
    else
      session.serve(step, end);
    std::uint64_t taken = step;
    for (; works && taken < end && !session.is_over(taken); ++taken) {
      session.check_stopped();
      session.take(taken);
      snapshots.stepped(taken + 1);
    }
    if (works) session.strategy().rest(session.replica());
    session.meet_the_living();
    over = session.meets_at_the_end(taken, end);
    // Before the scores, which may take long.
    if (works && over && !session.experiment.hollow()) session.write(snapshots.last_model());
    if (works) snapshots.score_kept();
    if (works && over && !session.log().has_scored(session.last_step())) snapshots.score_last();
    // Half of a run can't be resumed: who is lost has no part in the checkpoint, and where workers
    // have ended apart there is no step that all have taken.
    const bool all_have_taken_it = !over || !session.experiment.has_open_end();
    if (end > step && all_have_taken_it && session.checkpoint_due(end) && session.lost().empty()) {
      session.together();
      session.save(end);
    }
    step = end;
  } while (!over);
  session.together();
  return session.finish();
}

}  // namespace lockstep
