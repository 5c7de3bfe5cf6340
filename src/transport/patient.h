// Waiting for a peer that may have hours of work before it gets there. What ends such a wait is the
// peer's death or leaving, which its world notices (heartbeats, the simulation): so, unlike others,
// it outlasts the transport's patience.
#pragma once

#include "transport/transport.h"

namespace lockstep {

// As Transport::wait_any, without its deadline: never late.
inline Ending wait_any_while_they_live(Transport& peers, std::span<const Request> requests) {
  for (;;)
    if (Ending how = peers.wait_any(requests, peers.patience()); !how.late()) return how;
}

inline Ending ending_while_it_lives(Transport& peers, Pending& pending) {
  for (;;)
    if (Ending how = peers.ending(pending, peers.patience()); !how.late()) return how;
}

// For code that can't go on without the peer: throws if it is gone.
inline Arrival wait_while_it_lives(Transport& peers, Pending& pending) {
  return ending_while_it_lives(peers, pending).or_throw();
}
inline Arrival wait_while_it_lives(Transport& peers, Pending&& pending) {
  return wait_while_it_lives(peers, pending);
}

// Until ranks 0 to `ranks` - 1 have come here too, or are gone.
inline void meet_while_they_live(Transport& peers, Tag tag, int ranks) {
  std::vector<Pending> open;
  for (int r = 0; r < ranks; ++r)
    if (r != peers.rank()) open.push_back(peers.send(r, tag, {}));
  for (int r = 0; r < ranks; ++r)
    if (r != peers.rank()) open.push_back(peers.recv(r, tag, {}));
  for (Pending& pending : open) ending_while_it_lives(peers, pending);
}

}  // namespace lockstep
