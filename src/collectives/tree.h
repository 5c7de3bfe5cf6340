// A sum up a tree and a total down again: what `tree`, `double-tree`, reduce and broadcast are made
// of.
#pragma once

#include "collectives/messages.h"
#include "core/topology.h"

namespace lockstep {

// This rank's part of the way up: adds the children in order, then sends to the parent; at the
// root the total over `ranks` is complete. Returns the step that the way down has to come after.
Messages::Step reduce_up(Messages&, const TreePlace&, Values, int ranks);
// And of the way down.
void send_down(Messages&, const TreePlace&, Values, Messages::Step up);
// Vectors that a rank sends on both ways: one to its parent, one to each child.
std::size_t vectors_sent(const TreePlace&);

}  // namespace lockstep
