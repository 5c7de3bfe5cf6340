// A simulated star of hosts, one rank each, for the tests of the simulated world.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "transport/simulated/simulated.h"

namespace lockstep::testing {

inline constexpr Tag kTag{Purpose::gradients, 1};
inline constexpr Tag kOther{Purpose::gradients, 2};
inline constexpr double kAlpha = 40e-6;
inline constexpr double kBandwidth = 2e9;

inline SimulatedCluster star(int ranks) {
  SimulatedCluster c;
  c.ranks = ranks;
  c.latency_s = kAlpha;
  c.bandwidth_bytes_per_s = kBandwidth;
  return c;
}

// Sends `bytes` hollow bytes from rank `from` to rank `to`, at once; returns when it has arrived.
inline void exchange(Rank& r, int from, int to, std::size_t bytes) {
  if (r.rank() == from) r.peers.wait(r.peers.send(to, kTag, ConstBytes(nullptr, bytes)));
  if (r.rank() == to) r.peers.wait(r.peers.recv(from, kTag, Bytes{nullptr, bytes}));
}

inline TransportError error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const TransportError& e) {
    return e;
  }
  ADD_FAILURE() << "no TransportError";
  return {TransportError::Kind::mismatch, -1, ""};
}

}  // namespace lockstep::testing
