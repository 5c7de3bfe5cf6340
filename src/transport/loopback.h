// Ranks as threads of one process: messages are copied through queues under a mutex. The plain
// reference for the contract, and the tests' default; speed is not its business.
#pragma once

#include <memory>
#include <vector>

#include "transport/transport.h"

namespace lockstep {

// Shared by all ranks of one fabric; owned by whoever runs it.
class LoopbackHub;

std::shared_ptr<LoopbackHub> make_loopback_hub(int ranks, int lanes, int ranks_per_host,
                                               double patience_seconds);
std::unique_ptr<Transport> open_loopback(std::shared_ptr<LoopbackHub>, int rank, int lane);

}  // namespace lockstep
