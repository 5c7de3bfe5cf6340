// The learner of a worker of a pipeline: some stages of a network that is cut over several workers,
// on LibTorch.
//
// A worker's replica is its distinct stages in their order, as one flat run. Its gradients are the
// sum over the samples of its roles, times the replicas that share the workers over the samples of
// the pipeline's step: where GEMS' two replicas go in opposite directions, the mean over the two
// workers that hold the same stages is the mean over all samples. A stage that a worker holds for
// both replicas has one set of parameters, whose gradients are the mean over both, and statistics
// of its own for each: statistics() has both, one after another, and a test or a file their mean.
#pragma once

#include <memory>

#include "parallel/partition.h"
#include "parallel/pipeline_schedule.h"
#include "train/learner.h"

namespace lockstep {

// A worker's place.
struct PipelineSeat {
  PipelineSchedule schedule;
  BlockCounts counts;  // the cut: blocks of each stage
  int pipeline = 0;    // which of them: it reads what the plan's worker of that number reads
  int worker = 0;      // of the pipeline
};

// `rank`: of the run, for messages. `whole`: the network with its initial weights, see
// network_for(). UsageError if it can't be cut like that. Sets LibTorch's threads as
// make_torch_learner().
//
// end_step() returns this worker's part of the pipeline's mean loss: the sum over the workers is
// the mean. A test goes through the first replica, in micro-batches as long as those of a step; its
// last stage has the tally. There are no tasks.
std::unique_ptr<Learner> make_staged_learner(const Experiment&, int rank, const PipelineSeat&,
                                             std::unique_ptr<Network> whole, const OpenMemory&,
                                             const ComputeTurns&);

// Puts the parts of a pipeline's workers, by worker, together in the whole network. InternalError
// unless the parts are those of such a pipeline.
void join_parts(Network& whole, const PipelineSchedule&, const BlockCounts&,
                std::span<const Model> by_worker);

}  // namespace lockstep
