// The order in which the workers of one pipeline do the work of a step: for each worker a list of
// actions, one after another. A schedule is a pure value, made from a name, its parameters and the
// number of workers, and the same on all ranks. It knows neither times nor tensors: forecast.h says
// how long it takes, stash.h what it keeps in memory.
//
// A new schedule is a file of its own in schedules/ with NAME_schedule(), and a line in
// pipeline_schedules.def; the tests walk that table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "core/slices.h"
#include "parallel/layout.h"

namespace lockstep {

// A backward pass computes the gradients of a stage's inputs, which the stage before waits for, and
// of its weights, which nobody waits for before the end of the step: as one pass, or as two.
enum class StagePass {
  forward,
  recompute,  // forward once more, from the inputs that were kept: its activations were dropped
  backward,   // of inputs and weights
  backward_inputs,
  backward_weights
};

struct Action {
  StagePass pass = StagePass::forward;
  int replica = 0;  // of those that share the pipeline's workers
  int stage = 0;
  int micro = 0;  // the micro-batch: counted from 0 in each replica, over all batches of the step
  bool operator==(const Action&) const = default;
};
// "backward of micro-batch 3 at stage 2"; the replica only where it is not the first.
std::string in_words(const Action&);

// Where the stages of one pipeline are, as the builder of Layout with that name has it.
enum class StagePlacement { grid, interleaved, folded, gems };

struct PipelineSchedule {
  int workers = 1;
  int stages = 1;    // of each replica
  int replicas = 1;  // of the network that share the workers
  int micros = 1;    // micro-batches of each replica in a step
  // What the micro-batches of a replica are cut from: so many batches, with as many micro-batches
  // each. A step takes replicas * batches batches, and its gradient is their mean.
  int batches = 1;
  StagePlacement placement = StagePlacement::grid;
  bool recomputes = false;                  // every backward is preceded by a recompute
  std::vector<std::vector<Action>> orders;  // by worker

  // Of so many pipelines side by side, each with its own workers. A schedule's worker w is rank w
  // of the first.
  Layout layout(int pipelines = 1) const;
  // Which of the samples of a pipeline's step are in that micro-batch: they are cut into batches,
  // by replica and then by number, and these into micro-batches, by chunk(). A short step leaves
  // some without samples, which no worker passes.
  Slice samples_of(std::size_t all, int replica, int micro) const;
};

struct PipelineScheduleRow {
  std::string_view name, alias;  // the alias may be empty
  std::string_view defaults;     // the parameters, with the values that they have if none is given
  std::string_view description;
  PipelineSchedule (*make)(const Options&, int workers);
};

std::span<const PipelineScheduleRow> pipeline_schedules();

// `spec` is NAME:key=value,…. UsageError says what is wrong with it, or why there can't be such a
// schedule for so many workers.
PipelineSchedule pipeline_schedule(std::string_view spec, int workers);

// What `--pipeline 4:schedule=gpipe,microbatches=8` asks for: 4 workers, "gpipe:microbatches=8".
// Without `schedule` it is 1f1b. UsageError.
struct PipelineRequest {
  int workers = 1;
  std::string spec;
};
PipelineRequest read_pipeline(std::string_view text);

// For the makers of schedules.

// The value of `microbatches`; 0 stands for four a worker, which keeps bubbles below a fifth.
// UsageError if it can't be.
int micros_of(const Options&, int workers);

// The order of a stage's own actions.
using StageOrder = std::function<std::vector<Action>(int stage, int stages)>;
// A schedule of one replica, made from its stages' orders. Each worker holds one stage or, if
// `folded`, two, p and 2K-1-p, whose orders are merged: the worker takes the action that can begin
// first where all actions take equally long. Of two that can begin it takes the backward pass,
// which frees memory, and of two of a kind that of the earlier micro-batch.
PipelineSchedule of_stages(int workers, int micros, bool folded, const StageOrder&);

#define PIPELINE_SCHEDULE(function, ...) PipelineSchedule function##_schedule(const Options&, int);
#include "parallel/schedules/pipeline_schedules.def"
#undef PIPELINE_SCHEDULE

}  // namespace lockstep
