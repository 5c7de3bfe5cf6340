// Pushes to servers and pulls as a strategy makes them, for the bench to time.
#pragma once

#include <memory>

#include "bench/participant.h"
#include "transport/rank.h"

namespace lockstep::bench {

// The strategies that `bench pushpull` times: parameter-server and asp. The canonical name.
// UsageError lists them.
std::string pushing_strategy(const std::string& name);

// Collective: this rank's part in the rounds of `work`, whose `collective` names the strategy. The
// rank outlives it.
std::unique_ptr<PushPull> make_push_pull(Rank& rank, const Work& work);

}  // namespace lockstep::bench
