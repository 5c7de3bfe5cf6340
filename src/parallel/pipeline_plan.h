// A network cut into the stages of a pipeline, and what a step of it will take: all that --dry-run
// shows before anything is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/partition.h"

namespace lockstep {

struct PlanRequest {
  std::string balance = "time";  // or memory, or the number of blocks of each stage: 3,4,5
  std::optional<std::uint64_t> memory_limit_bytes;  // of a worker
};

struct PipelinePlan {
  PipelineSchedule schedule;
  BlockCounts counts;
  std::vector<StageCosts> stages;
  std::vector<std::uint64_t> worker_bytes;  // parameters and all that goes with them, and stashes
  Forecast forecast;
  std::string notice;  // what the memory limit changed; may be empty
};

// The cut that the request asks for: the best of those in which no worker needs more than the
// limit. It is the best of all where a worker holds one stage. Where it holds several, stages are
// made ever smaller, from the best cut on, until the workers fit: then there may be a better one.
// UsageError, with the numbers, if no cut fits, or the network can't be cut like that.
PipelinePlan plan_pipeline(const NetworkCosts&, const PipelineSchedule&, const CutTerms&,
                           const PlanRequest&);

// A table of the stages, then time, bubble and samples a second; `batch`: samples of a batch.
std::string in_words(const PipelinePlan&, const NetworkCosts&, std::uint64_t batch);

}  // namespace lockstep
