// Where a training runs: on processes of ours, as a process of another launcher, as threads, or
// simulated. The ranks do the same in all of them: train/trainer.h.
#pragma once

#include <csignal>

#include "cli/flags.h"
#include "cluster/output.h"
#include "cluster/start.h"
#include "train/trainer.h"

namespace lockstep {

// Each returns what rank 0 came to, or throws what went wrong first.
WorkerOutcome train_simulated(const Experiment&, WorkerOptions);
WorkerOutcome train_in_threads(const Experiment&, WorkerOptions);
// This process is the rank that `start` says. The run is kept where rank 0's `folder` is. On the
// rank that leads, `keep` gets what came of it before the rank leaves: one that leaves in good
// order has kept it.
WorkerOutcome train_as_rank(
    const Start&, const Experiment&, WorkerOptions,
    const std::function<void(const WorkerOutcome&, const RunFolder&)>& keep);

// A worker process that stopped with all others, after a checkpoint, exits with this.
inline constexpr int kStoppedStatus = 128 + SIGTERM;
struct LaunchedEnd {
  int status = 0;        // the ranks' worst exit status
  int told_to_stop = 0;  // the signal, or 0
  std::string verdict;   // what went wrong
};
// Starts the ranks as processes, with the configuration in the run's folder, which `make_folder`
// makes when nothing can be refused any more, and passes on what they say. A signal that an
// Interrupt caught before the launch could stops it too.
LaunchedEnd train_launched(const TrainConfig&, const HostFlags&, int threads, Output& out,
                           Output& err, Watcher&, const std::function<void()>& make_folder);

// Do ranks that are told to stop first take the same number of steps and write a checkpoint?
bool stops_with_checkpoint(const TrainConfig&);

// How long a step takes on this machine, alone. For simulations that don't say.
double measured_step_s(const Experiment&);

// A training process sets up: threads of LibTorch, malloc, and a core of its own where all ranks
// have one. `rank` of so many on this machine, whatever hosts it pretends to be.
void set_up_process(const Experiment&, int rank, int ranks);

}  // namespace lockstep
