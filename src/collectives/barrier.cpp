#include "collectives/barrier.h"

#include "transport/patient.h"

namespace lockstep {
namespace {

template <class Wait>
void meet(Transport& transport, Tag tag, Wait wait) {
  const int m = transport.size(), r = transport.rank();
  for (int d = 1; d < m; d *= 2) {
    Pending heard = transport.recv((r - d + m) % m, tag, {});
    Pending told = transport.send((r + d) % m, tag, {});
    wait(heard);
    wait(told);
  }
}

}  // namespace

void barrier(Transport& transport, Tag tag) {
  meet(transport, tag, [&](Pending& pending) { transport.wait(pending); });
}

void patient_barrier(Transport& transport, Tag tag) {
  meet(transport, tag, [&](Pending& pending) { wait_while_it_lives(transport, pending); });
}

}  // namespace lockstep
