// The online audit: proves in every step that the average really happened. Averaging that is
// silently wrong still trains, only worse, and is found in published code.
//
// In each step every rank projects (see projection.h) its gradients, what its optimiser steps with,
// the weights after that step, and those it ends with; all ranks tell each other; and each applies
// the strategy's own statement, flows(), to everybody's projections and compares. Nothing of the
// strategy's exchange is taken on trust, only what it promises.
//
// Tolerance: a sum of k terms f·x computed in fp32 is off by at most (k+2)·2^-24·sum|f|·|x| in
// norm, and a random pattern of signs exceeds 8 times the norm of what it is applied to with a
// probability below 3e-14. So an alarm is no accident, and what it can miss is as small as
// rounding.
#pragma once

#include <memory>

#include "core/error.h"
#include "strategies/strategy.h"

namespace lockstep {

// The first thing that does not hold, the same on all ranks: step, rank, parameters, and what was
// expected and found.
class AuditError : public Error {
 public:
  using Error::Error;
};

// The same strategy, audited on all ranks of the crew (servers too), which use it in its place. A
// step then also reads all numbers five times and sends a little under Purpose::control. update()
// and serve() throw AuditError; UsageError if the replica is hollow.
std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy>, const Crew&);

}  // namespace lockstep
