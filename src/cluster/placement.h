// Which rank runs on which host: they fill the hosts one by one, but the last `guests` of them live
// with ranks 0, 1, …
#pragma once

namespace lockstep {

struct Place {
  int host;
  int local_rank, local_size;  // among the ranks of that host
};

struct Placement {
  int ranks = 1, ranks_per_host = 1, guests = 0;

  int host_of(int rank) const {
    const int owners = ranks - guests;
    return (rank < owners ? rank : rank - owners) / ranks_per_host;
  }
  Place of(int rank) const {
    Place place{host_of(rank), 0, 0};
    for (int r = 0; r < ranks; ++r) {
      if (host_of(r) != place.host) continue;
      ++place.local_size;
      if (r < rank) ++place.local_rank;
    }
    return place;
  }
};

}  // namespace lockstep
