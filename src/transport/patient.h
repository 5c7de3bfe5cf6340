// Waiting for a peer that may have hours of work before it gets there. What ends such a wait is the
// peer's death or leaving, which its world notices (heartbeats, the simulation): so, unlike others,
// it outlasts the transport's patience.
#pragma once

#include "transport/transport.h"

namespace lockstep {

// As Transport::wait_any, without its deadline.
inline std::size_t wait_any_while_they_live(Transport& peers, std::span<const Request> requests,
                                            Arrival* arrival = nullptr) {
  for (;;) {
    try {
      return peers.wait_any(requests, peers.patience(), arrival);
    } catch (const TransportError& e) {
      if (e.kind() != TransportError::Kind::deadline) throw;
    }
  }
}

inline Arrival wait_while_it_lives(Transport& peers, Request request) {
  Arrival arrival;
  wait_any_while_they_live(peers, {&request, 1}, &arrival);
  return arrival;
}

// Until ranks 0 to `ranks` - 1 have come here too, or are gone.
inline void meet_while_they_live(Transport& peers, Tag tag, int ranks) {
  std::vector<Request> open;
  for (int r = 0; r < ranks; ++r)
    if (r != peers.rank()) open.push_back(peers.send(r, tag, {}));
  for (int r = 0; r < ranks; ++r)
    if (r != peers.rank()) open.push_back(peers.recv(r, tag, {}));
  for (const Request request : open) try {
      wait_while_it_lives(peers, request);
    } catch (const TransportError& e) {
      if (!e.is_gone()) throw;
    }
}

}  // namespace lockstep
