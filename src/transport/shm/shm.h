// Messages between the ranks of one host, through rings in shared memory; and windows.
// Ranks are numbered job-wide; those of other hosts can't be reached (UsageError): see routed.h.
#pragma once

#include <memory>

#include "transport/shm/host.h"
#include "transport/transport.h"

namespace lockstep {

// `host` may be shared by the lanes of one process and lives as long as they.
std::unique_ptr<Transport> open_shm(std::shared_ptr<ShmHost> host, int lane);

}  // namespace lockstep
