// The loop of ranks that go in rounds: in every epoch a manager hands out the split's shards as
// tasks, each worker trains on its own from the epoch's model, and the manager makes the next model
// of the results (strategies/round_strategy.h says how), scores it, and goes on. Workers that die
// are gone on without; tasks that are given up go to others, or are dropped.
#pragma once

#include "train/session.h"

namespace lockstep {

WorkerOutcome run_rounds(Session&);

}  // namespace lockstep
