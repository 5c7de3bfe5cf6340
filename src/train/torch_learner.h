// The learner that computes, and the network it is made of.
#pragma once

#include "models/registry.h"
#include "train/learner.h"

namespace lockstep {

// The network that the configuration names, for its data, with the initial weights of its seed.
// UsageError.
std::unique_ptr<Network> network_for(const Experiment&, const ComputeTurns& = {});

}  // namespace lockstep
