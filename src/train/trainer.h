// One rank's part of a training run, the same in every world.
#pragma once

#include <functional>

#include "measure/profile.h"
#include "strategies/registry.h"
#include "train/experiment.h"
#include "train/learner.h"
#include "train/result.h"
#include "train/run_folder.h"
#include "transport/rank.h"

namespace lockstep {

// The run was told to stop before its end.
class Stopped : public Error {
 public:
  using Error::Error;
};

struct WorkerOptions {
  Watcher* watcher = nullptr;         // none: nobody follows the run
  const RunFolder* folder = nullptr;  // for metrics, checkpoints, the model; none: nothing is kept
  // Asked before each step; true: the run is to stop. Where checkpoints are on, all ranks take the
  // same number of steps, write one, and throw Stopped; elsewhere this rank throws it at once.
  std::function<bool()> stopped;
  // For ranks that share a process and keep in step: is told how many steps a rank has taken, and
  // says whether all stop there; says true to all of them after the same number of steps. None: the
  // ranks agree by messages.
  std::function<bool(std::uint64_t taken)> stopped_after;
  bool own_process =
      false;  // no other rank is in this process, so its CPU and memory are this rank's
  ComputeTurns turns;
};

struct WorkerOutcome {
  TrainResult result;  // whole on the rank that leads
  Profile profile;     // of this rank
  bool leads = true;   // the manager where there is one, else the lowest rank that is left
};

// Collective over all ranks of the run. Errors: TransportError, AuditError, BadGradient, Stopped;
// UsageError for a model or checkpoint that does not fit, or another number of ranks; InternalError
// for whatever else LibTorch or the system refuse, in one sentence.
WorkerOutcome train(Rank&, const Experiment&, const WorkerOptions& = {});

}  // namespace lockstep
