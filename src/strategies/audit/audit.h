// The online audit: proves in every step that the average really happened. Averaging that is
// silently wrong still trains, only worse, and is found in published code.
//
// Where workers go together every rank projects (see projection.h) in each step its gradients, what
// its optimiser steps with, the weights after that step, those it ends with, and the strategy's
// memories; all ranks tell each other; and each applies the strategy's own statement, flows(), to
// everybody's projections and compares. Nothing of the strategy's exchange is taken on trust, only
// what it promises. The same of the model that is read to be scored and saved, by flow_of_model().
//
// Where ranks go apart there is no step that all take: each exchange is proved by itself, and each
// replica followed, as mix_audit.h says. In rounds the strategy proves them itself.
#pragma once

#include <memory>

#include "strategies/audit/mix_audit.h"
#include "strategies/strategy.h"

namespace lockstep {

// The part of an audited strategy that the training loop calls before it relies on what a worker
// has. For workers.
class Audit {
 public:
  // AuditError unless `own` are the weights that the last update or rest has left here, and the
  // updates had so many samples of this worker's in all: what its weights and its statistics of
  // batch norm are about to be counted by.
  virtual void prove_own(Values own, std::uint64_t samples) const = 0;
  // Where workers go apart. Collective over those that are there still, when all of them rest:
  // proves what only all can.
  virtual void prove_at_rest(Transport& /*workers*/) const {}

 protected:
  ~Audit() = default;
};

// The same strategy, audited on all ranks of the crew (servers too), which use it in its place;
// those that go in rounds come back as they are, with their proofs on. A step then also reads all
// numbers five times and sends a little under Purpose::control. update(), serve(), read_model(),
// rest(), fetch_model() and the Audit throw AuditError; UsageError if the replica is hollow, or if
// the strategy has neither a Statement nor ExchangeProofs to hold it to.
std::unique_ptr<Strategy> audited(std::unique_ptr<Strategy>, const Crew&);

}  // namespace lockstep
