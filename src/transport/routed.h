// Shared memory to the ranks of my host, the network to the others, as one transport.
#pragma once

#include <functional>
#include <memory>

#include "transport/transport.h"

namespace lockstep {

// Returns when the far side may have news, or after so many seconds.
using Doze = std::function<void(double seconds)>;

// `near` and `far` number the ranks alike and agree on host_of(), which says who is reached by
// which; they blame through one Deaths. `doze` sleeps for `far`. Windows are near's.
std::unique_ptr<Transport> open_routed(std::unique_ptr<Transport> near,
                                       std::unique_ptr<Transport> far, Doze doze);

}  // namespace lockstep
