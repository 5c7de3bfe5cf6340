// The rows of the registry as cases of the golden matrix: each with several parameters, numbers of
// workers and placements of servers, and with uneven samples, an idle worker, the audit, long and
// hollow vectors. A new row is a new case.
#pragma once

#include "adapter.h"

namespace lockstep::golden {

struct Case {
  std::string name;
  Job job;
  bool in_step = true;  // its bits do not depend on time: the same on threads as in simulation
};
std::vector<Case> strategy_cases();

}  // namespace lockstep::golden
