#include "collectives/barrier.h"

namespace lockstep {

void barrier(Transport& transport, Tag tag) {
  const int m = transport.size(), r = transport.rank();
  for (int d = 1; d < m; d *= 2) {
    const Request heard = transport.recv((r - d + m) % m, tag, {});
    const Request told = transport.send((r + d) % m, tag, {});
    transport.wait(heard);
    transport.wait(told);
  }
}

}  // namespace lockstep
