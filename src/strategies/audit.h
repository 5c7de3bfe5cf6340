// The online audit: proves in every step that the average really happened. Averaging that is
// silently wrong still trains, only worse, and is found in published code.
//
// In each step every rank projects (see projection.h) its gradients, what its optimiser steps with,
// the weights after that step, those it ends with, and the strategy's memories; all ranks tell each
// other; and each applies the strategy's own statement, flows(), to everybody's projections and
// compares. Nothing of the strategy's exchange is taken on trust, only what it promises. The same
// of the model that is read to be scored and saved, by flow_of_model().
#pragma once

#include <memory>

#include "strategies/strategy.h"

namespace lockstep {

// The same strategy, audited on all ranks of the crew (servers too), which use it in its place. A
// step then also reads all numbers five times and sends a little under Purpose::control. update(),
// serve() and read_model() throw AuditError; UsageError if the replica is hollow.
std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy>, const Crew&);

// The same of a strategy whose ranks go apart: there is no step that all take, so each exchange is
// proved by itself, and each replica followed, as mix_audit.h says. update(), rest(),
// prove_at_rest(), fetch_model() and serve() throw AuditError.
std::unique_ptr<Strategy> audited_apart(std::unique_ptr<Strategy>, const Crew&);

}  // namespace lockstep
