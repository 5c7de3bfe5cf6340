// The simulated world: n ranks as SimGrid actors on a modelled network, in virtual time. The same
// bodies as over real transports; the same cluster gives the same virtual times and bits, always.
//
// Every choice that depends on arrival is settled by virtual time, ties by the order of the ranks'
// calls. All actors share one thread: hold no mutex and no thread-local state across a call that
// may pass time. One simulation a process: a second call is a UsageError; fork for more.
#pragma once

#include "transport/fabric.h"
#include "transport/simulated/cluster.h"

namespace lockstep {

// Returns when all ranks have returned or died. If any threw, the error that came first in virtual
// time is thrown here. InternalError says who waits for what if the simulation can't go on.
void run_simulated(const SimulatedCluster&, const Body&);

}  // namespace lockstep
