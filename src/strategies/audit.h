// The online audit: proves in every step that the average really happened. Averaging that is
// silently wrong still trains, only worse, and is found in published code.
//
// In each step every rank projects (see projection.h) its gradients, what its optimiser steps with,
// the weights after that step, those it ends with, and the strategy's memories; all ranks tell each
// other; and each applies the strategy's own statement, flows(), to everybody's projections and
// compares. Nothing of the strategy's exchange is taken on trust, only what it promises.
#pragma once

#include <memory>

#include "strategies/strategy.h"

namespace lockstep {

// The same strategy, audited on all ranks of the crew (servers too), which use it in its place. A
// step then also reads all numbers five times and sends a little under Purpose::control. update()
// and serve() throw AuditError; UsageError if the replica is hollow.
std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy>, const Crew&);

}  // namespace lockstep
