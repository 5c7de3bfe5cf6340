// A network in parts, one with each worker of a pipeline: what a rank holds, and the whole again.
#pragma once

#include <string>
#include <vector>

#include "train/learner.h"

namespace lockstep {

// Of the stages that the rank holds. UsageError if the network can't be cut as the experiment says.
std::unique_ptr<Learner> make_pipeline_learner(const Experiment&, int rank, const OpenMemory&,
                                               const ComputeTurns&);

// Collective over the ranks that average with each other, before their first step, when each has
// its own initial weights or those of a checkpoint: AuditError names one that holds other stages.
void prove_equal_parts(Transport& equals, Replica&);

// Collective over the workers of a pipeline: the parts of all, by worker, on the first; nothing on
// the others.
std::vector<Model> models_at_first(Transport& line, const Model& mine);

// Puts the parts together and writes the network, unless `path` is empty; it is whole and on disk
// when this returns. Returns the SHA-256 of its weights, in the order of the network: that of one
// worker with the same weights. Where the run is audited: AuditError if the file, read back, is not
// what was put together.
std::string save_joined_model(const Experiment&, const std::vector<Model>& by_worker,
                              const std::string& path, const ComputeTurns&);

}  // namespace lockstep
