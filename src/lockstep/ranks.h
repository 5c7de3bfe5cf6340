// A program's ranks as processes.
#pragma once

#include "cluster/job.h"
#include "transport/fabric.h"

namespace lockstep {

// Started by hand, this program starts itself `ranks` times over on this machine, with the same
// arguments, and watches: output comes with the rank before each line, nothing outlives it, and if
// a rank fails the others are stopped and one sentence says which failed and why. Started by that,
// or by mpirun, srun or anything that sets torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT; then LOCKSTEP_KEY_FILE names the job key, and the launcher decides how many ranks
// there are), it joins, runs `body` as its rank, and leaves.
//
// Returns the exit status: 0 done, 2 wrong usage (a UsageError), else failed. Errors of `body` are
// printed, not thrown. To be called once, first thing in main(): what stands before it is done by
// the watching process too. Lets malloc keep freed memory (see replica/malloc.h).
int run_ranks(int argc, char** argv, int ranks, const Body& body, const JobOptions& = {});

}  // namespace lockstep
