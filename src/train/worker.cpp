#include "train/worker.h"

#include "replica/torch_error.h"
#include "strategies/server_shards.h"
#include "train/apart.h"
#include "train/rounds.h"
#include "train/session.h"

namespace lockstep {
namespace {

// All workers take every step together, and meet to be scored.
WorkerOutcome run_together(Session& session) {
  const bool works = session.crew().works();
  std::uint64_t step = session.start();
  for (; !session.is_over(step); ++step) {
    session.check_stopped(step);
    if (works) {
      session.take(step);
    } else {
      session.serve(step, step + 1);
      session.served(step, step + 1);
    }
    if (session.score_due(step + 1)) session.score(step + 1);
    if (session.checkpoint_due(step + 1)) session.save(step + 1);
  }
  session.end_at(step);
  // What ends by itself is not known to be the last step when it is taken.
  if (session.experiment.has_open_end() && !session.has_scored(step)) session.score(step);
  if (works && !session.experiment.hollow())
    session.write(model_of(session.workers(), session.strategy(), session.learner(),
                           session.log().own_samples(), session.experiment.config.audit));
  return session.finish();
}

}  // namespace

WorkerOutcome train(Rank& rank, const Experiment& experiment, const WorkerOptions& options) try {
  const TrainConfig& config = experiment.config;
  if (rank.size() != config.ranks())
    throw UsageError(fmt::format("the run has {} workers and servers, but there are {} ranks",
                                 config.ranks(), rank.size()));
  Session session(rank, experiment, options);
  if (experiment.strategy.goes_in_rounds()) return run_rounds(session);
  return naming_servers(session.crew(), session.replica().weights().count(), [&] {
    return experiment.in_step() ? run_together(session) : run_apart(session);
  });
} catch (const Error&) {
  throw;
} catch (const std::exception& e) {  // LibTorch's, or the library's
  throw InternalError(fmt::format("rank {}: {}", rank.rank(), sentence_of(e)));
}

}  // namespace lockstep
