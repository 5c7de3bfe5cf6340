// Ranks that take every step together.
#include "collectives/gather.h"
#include "train/evaluate.h"
#include "train/loops.h"

namespace lockstep {
namespace {

// Collective, out of training time: what time went where, and how good the strategy's model is.
void score(const Trainee& trainee, Timetable& timetable, Recorder& recorder,
           const Generation& members, RunState& state, std::uint64_t taken) {
  const Experiment& experiment = trainee.experiment;
  recorder.settle(members.present());
  std::vector<double> totals = state.log.totals(recorder.exchanged().bytes_sent);
  sum_over_ranks(members.present(), totals);
  Score score =
      ProgressLog::score_from(totals, taken, timetable.ends_epoch(taken), state.clock.training_s());
  Clock& clock = trainee.rank.clock;
  const double start = clock.now();
  const bool works = trainee.crew.works();
  if (works && !experiment.hollow()) {
    const Model model = model_of(members.workers(), trainee.strategy, trainee.learner,
                                 state.log.own_samples(), experiment.config.audit);
    evaluate(members.workers(), trainee.learner, experiment, model,
             floats(trainee.replica.weights()), trainee.strategy.mass() > 0, score, trainee.stages);
  }
  recorder.evaluated(start, works ? clock.now() : start, taken);
  recorder.keep(state.log, score, state.log.samples(), members.leads());
  members.meet();
}

}  // namespace

void run_together(const Trainee& trainee, Stepper& worker, Timetable& timetable, Recorder& recorder,
                  Checkpoints& checkpoints, const Generation& members, RunState& state,
                  std::uint64_t first) {
  const bool works = trainee.crew.works();
  std::uint64_t step = first, scored_at = 0;
  for (; !timetable.is_over(step); ++step) {
    if (timetable.stops_here(step)) {
      if (step > 0 && !timetable.checkpoint_due(step)) checkpoints.save(members, state, step);
      throw Stopped("the run was stopped");
    }
    if (works) {
      worker.take(members, step);
    } else {
      worker.serve(step, step + 1);
      worker.served(step, step + 1);
    }
    if (timetable.score_due(step + 1)) {
      scored_at = step + 1;
      score(trainee, timetable, recorder, members, state, scored_at);
    }
    if (timetable.checkpoint_due(step + 1)) checkpoints.save(members, state, step + 1);
  }
  timetable.end_at(step);
  // A run that ends by itself does not know its last step when that is taken.
  const bool has_scored = scored_at == step || state.log.has_scored(step);
  if (trainee.experiment.has_open_end() && !has_scored)
    score(trainee, timetable, recorder, members, state, step);
  if (!works || trainee.experiment.hollow()) return;
  const Model model = model_of(members.workers(), trainee.strategy, trainee.learner,
                               state.log.own_samples(), trainee.experiment.config.audit);
  if (members.leads()) recorder.keep_model(trainee.learner, model);
}

}  // namespace lockstep
