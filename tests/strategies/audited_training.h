// Trainings in step that tests of means and of pushes share.
#pragma once

#include "strategies/audit/audit.h"
#include "strategies/registry.h"
#include "training.h"

namespace lockstep::testing {

// The same with every exchange audited.
inline Training with_audit(Training t) {
  t.make = [make = t.make](const Crew& crew) { return audited(make(crew), crew); };
  return t;
}

// Three workers of uneven batches with a parameter server.
inline Training pushing_together(int servers, bool colocated, MakePushCode codes) {
  Training t;
  t.make = [](const Crew& crew) { return make_strategy("parameter-server", crew); };
  t.push_codes = std::move(codes);
  t.workers = 3;
  t.servers = servers;
  t.colocated = colocated;
  t.samples = {4, 2, 6};
  t.steps = 6;
  return t;
}

}  // namespace lockstep::testing
