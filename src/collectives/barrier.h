// Barrier: returns when every rank has called it. Dissemination (Hensgen, Finkel, Manber, 1988): in
// ceil(log2 m) rounds rank r tells r+1, r+2, r+4, … by empty messages: no bytes.
#pragma once

#include "transport/transport.h"

namespace lockstep {

void barrier(Transport&, Tag);
// The same where some may have hours of work before they get there: waits for as long as all live.
void patient_barrier(Transport&, Tag);

}  // namespace lockstep
