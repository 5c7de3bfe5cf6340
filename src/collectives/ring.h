// The ring of ring.cpp among some of the ranks, each of which comes with a part of the total.
#pragma once

#include "core/values.h"
#include "transport/transport.h"

namespace lockstep {

// Every rank of the transport ends with the total over `ranks` ranks, which a mean is divided by.
void ring_total(Transport&, Tag, Values, int ranks);

}  // namespace lockstep
