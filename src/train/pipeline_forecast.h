// What a run's pipelines will take: from the costs of the network's blocks, measured here, come the
// cut and a forecast of its step.
#pragma once

#include <string>

#include "parallel/pipeline_plan.h"
#include "train/experiment.h"

namespace lockstep {

struct PipelineForecast {
  NetworkCosts costs;  // of a micro-batch
  PipelinePlan plan;
  double step_s = 0;  // of one worker that does all of a pipeline's step

  // The plan as a table, and the step as a chart.
  std::string in_words(std::size_t batch) const;
};

// Measures the blocks, cuts the network as the configuration says, and forecasts the step; where a
// simulation says how long a step takes, blocks have parts of that. REQUIRES: the configuration has
// a pipeline. UsageError: the network can't be cut like that.
PipelineForecast forecast_pipelines(const Experiment&);

// The sizes of all stages and of what passes between them, for learners without numbers.
StageSizes sizes_of_stages(const Experiment&, const BlockCounts& cut);

}  // namespace lockstep
