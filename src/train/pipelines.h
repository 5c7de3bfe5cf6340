// The pipelines of a run: how each works through a step, where the network is cut, and who is who.
// A pure value, the same on all ranks.
#pragma once

#include <vector>

#include "core/replica.h"
#include "parallel/partition.h"

namespace lockstep {

// How large stages are, and what passes between them.
struct StageSizes {
  std::vector<std::vector<Parameter>> parameters;  // by stage, of each from 0 on
  struct Link {
    int from = 0, to = 0;     // stages
    std::size_t numbers = 0;  // of one sample
  };
  std::vector<Link> links;
};

struct Pipelines {
  PipelineSchedule schedule;  // of each
  int count = 1;              // side by side, each with its own workers and samples
  BlockCounts cut;            // blocks of each stage
  // In simulation, by stage: what its passes take of the time of one worker that does all of a
  // step. Without numbers: the sizes.
  std::vector<PassTimes> shares = {};
  StageSizes sizes = {};

  int pipeline_of(int rank) const { return rank / schedule.workers; }
  int worker_of(int rank) const { return rank % schedule.workers; }  // of its pipeline
  // The ranks of a pipeline, in the order of its workers.
  std::vector<int> ranks_of(int pipeline) const;
  // The stages that a rank holds, each once, in rising order: its replica is their parameters, one
  // after another. A stage that it holds for two replicas (see Layout::gems) has one set of
  // weights.
  std::vector<int> stages_of(int rank) const;
  // The ranks that hold the same stages, in rising order: among them a strategy averages.
  std::vector<int> equals_of(int rank) const;
};

}  // namespace lockstep
