// What a schedule keeps in memory. A stage keeps the inputs of a micro-batch from its forward until
// the last of its backward passes, and so it does with its activations, all else that backward
// needs. Where it recomputes, activations live while forward runs, and from the recompute on. All
// follows from the order of actions; how long they take does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/pipeline_schedule.h"

namespace lockstep {

// The most micro-batches whose activations, and whose inputs, live at a time.
struct Stash {
  int activations = 0, inputs = 0;
  bool operator==(const Stash&) const = default;
};
// By stage. Where replicas share the workers, a stage's stash is that of one replica: all are
// alike.
std::vector<Stash> stashes(const PipelineSchedule&);

// Of one micro-batch at one stage.
struct StashBytes {
  std::uint64_t activations = 0, inputs = 0;
};
// By worker: the most bytes that the stashes of all its stages take at a time.
std::vector<std::uint64_t> peak_stash_bytes(const PipelineSchedule&,
                                            std::span<const StashBytes> by_stage);

}  // namespace lockstep
