// y += a x, the step that most rules for weights are made of.
#pragma once

#include "core/values.h"

namespace lockstep {

// into[i] += factor * from[i], computed in fp64 and rounded once. Nothing happens when either side
// is hollow. REQUIRES: fp32, equal counts.
void add_scaled(Values into, double factor, Values from);

}  // namespace lockstep
