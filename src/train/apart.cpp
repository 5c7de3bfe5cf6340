#include "train/apart.h"

#include "train/session.h"
#include "train/snapshots.h"

namespace lockstep {
namespace {

// The steps up to which ranks go apart before they meet: none, if a resumed run has had them all.
std::uint64_t next_meeting(const Session& session, std::uint64_t first) {
  if (first >= session.experiment.steps) return first;
  std::uint64_t end = first + 1;
  while (end < session.experiment.steps && !session.checkpoint_due(end)) ++end;
  return end;
}

}  // namespace

WorkerOutcome run_apart(Session& session) {
  Snapshots snapshots(session);
  const bool works = session.crew().works();
  std::uint64_t step = session.start();
  // Once at least: what the run has come to is asked of servers when all rest.
  do {
    const std::uint64_t end = next_meeting(session, step);
    if (works)
      session.strategy().go();
    else
      session.serve(step, end);
    for (std::uint64_t s = step; works && s < end; ++s) {
      session.check_stopped();
      session.take(s);
      snapshots.stepped(s + 1);
    }
    if (works) session.strategy().rest(session.replica());
    session.meet_the_living();
    // Before the scores, which may take long.
    if (works && end == session.experiment.steps && !session.experiment.hollow())
      session.write(snapshots.last_model());
    if (works) snapshots.score_kept();
    if (works && end == session.experiment.steps && !session.log().has_scored(end))
      snapshots.score_last();
    // Half of a run can't be resumed: who is lost has no part in the checkpoint.
    if (end > step && session.checkpoint_due(end) && session.lost().empty()) {
      session.together();
      session.save(end);
    }
    step = end;
  } while (step < session.experiment.steps);
  session.together();
  return session.finish();
}

}  // namespace lockstep
