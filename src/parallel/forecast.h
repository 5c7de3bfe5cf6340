// How long a step of a pipeline takes by its schedule, from the times of its passes and messages:
// when each action begins and ends, who waits how long, and what is sent. A worker does its actions
// one after another, each as soon as what it needs has arrived (stage_progress.h). Messages travel
// beside the computation, take as long as their link says, do not get in each other's way, and are
// free between two stages of one worker. All times are those of one micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pipeline_schedule.h"
#include "parallel/stage_progress.h"

namespace lockstep {

struct PassTimes {
  double forward_s = 0, backward_inputs_s = 0, backward_weights_s = 0;
  double backward_s() const { return backward_inputs_s + backward_weights_s; }
  double total_s() const { return forward_s + backward_s(); }
  double of(StagePass) const;  // recompute takes as long as forward
};

struct TimedAction {
  Action action;
  double begin_s = 0, end_s = 0;
};

// What passes over one link in a step, between all replicas' stages together: activations one way
// and gradients back. Nothing where both stages are on one worker.
struct LinkTraffic {
  int from = 0, to = 0;                   // stages
  std::uint64_t messages = 0, bytes = 0;  // in both directions together
};

struct Forecast {
  std::vector<std::vector<TimedAction>> workers;
  double makespan_s = 0;
  std::vector<double> idle_s;        // by worker, in the whole step
  std::vector<LinkTraffic> traffic;  // in the order of the links
  // The part of all workers' time in which they wait.
  double bubble() const;
};

// `times`: by stage. `links`: those of the cuts, from each stage to the next, and skips; a cut that
// is left out is free. UsageError if there are not as many times as stages, or a link does not go
// from a stage to a later one; InternalError names an action that would wait forever.
Forecast forecast(const PipelineSchedule&, std::span<const PassTimes> times,
                  std::span<const StageLink> links = {});

}  // namespace lockstep
