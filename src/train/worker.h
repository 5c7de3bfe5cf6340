// The training loop of one rank, the same in every world.
#pragma once

#include <functional>

#include "strategies/registry.h"
#include "train/compute_time.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/run_folder.h"
#include "train/watcher.h"
#include "transport/rank.h"

namespace lockstep {

// The run was told to stop before its end.
class Stopped : public Error {
 public:
  using Error::Error;
};

struct WorkerOptions {
  Watcher* watcher = nullptr;         // rank 0's, if anybody watches
  const RunFolder* folder = nullptr;  // for metrics, checkpoints, the model; none: nothing is kept
  // Asked before each step; true: the run is to stop. Where checkpoints are on all ranks
  // take the same number of steps, write one, and throw Stopped; elsewhere this rank throws it at
  // once.
  std::function<bool()> stopped;
  // For ranks that share a process and keep in step: told how many steps one has taken, says
  // whether all stop there. True on all of them after the same number of steps. None: they agree by
  // messages.
  std::function<bool(std::uint64_t taken)> stopped_after;
  bool own_process = false;  // no other rank is in this process: its use is this rank's
  ComputeTurns turns;
};

struct WorkerOutcome {
  // Whole on one rank only: rank 0, or the lowest that is left; the manager where there is one.
  TrainResult result;
  Profile profile;    // of this rank
  bool leads = true;  // is this the one?
};

// Collective over all ranks of the run. Errors: TransportError, AuditError, BadGradient, Stopped;
// UsageError for a model or checkpoint that does not fit, or another number of ranks; InternalError
// for whatever else LibTorch or the system refuse, in one sentence.
WorkerOutcome train(Rank&, const Experiment&, const WorkerOptions& = {});

}  // namespace lockstep
