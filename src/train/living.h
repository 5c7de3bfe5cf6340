// Who is left of a run that went on without those it lost.
#pragma once

#include <vector>

#include "transport/transport.h"

namespace lockstep {

// Collective over those that are left, who may come late: waits for all that live. The same
// ascending list on all of them. A rank that is lost while they agree may be in it: then what
// follows fails and names it.
std::vector<int> agree_on_living(Transport&);

// Those of 0..size-1 that are not in that list.
std::vector<int> absent_from(const std::vector<int>& living, int size);

}  // namespace lockstep
