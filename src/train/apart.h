// The loop of runs whose workers go apart: each takes its steps at its own pace, nobody waits for
// anybody but by the strategy's rule, and whoever is lost is done without. All meet only for
// checkpoints, when they are told to stop, and at the end.
#pragma once

#include "train/worker.h"

namespace lockstep {

class Session;

WorkerOutcome run_apart(Session&);

}  // namespace lockstep
