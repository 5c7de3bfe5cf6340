// Which rank runs on which host: they fill the hosts one by one, but the last `guests` of them live
// with ranks 0, 1, …
#pragma once

namespace lockstep {

struct HostSlot {
  int host;
  int local_rank, local_size;  // among the ranks of that host
};

struct Placement {
  int ranks = 1, ranks_per_host = 1, guests = 0;

  int host_of(int rank) const {
    const int owners = ranks - guests;
    return (rank < owners ? rank : rank - owners) / ranks_per_host;
  }
  HostSlot of(int rank) const {
    HostSlot slot{host_of(rank), 0, 0};
    for (int r = 0; r < ranks; ++r) {
      if (host_of(r) != slot.host) continue;
      ++slot.local_size;
      if (r < rank) ++slot.local_rank;
    }
    return slot;
  }
};

}  // namespace lockstep
