// The wires of the simulated world: a SimGrid platform built from a SimulatedCluster, on which
// bytes fly from host to host. An idle network is exactly alpha-beta (see simulated_cluster.h).
#pragma once

#include <simgrid/forward.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/simulated_cluster.h"

namespace lockstep {

// Something under way; outlives its landing.
class Flight {
 public:
  // Called once, when the last byte arrives, outside all actors. Must not block or throw.
  virtual void land() = 0;

 protected:
  ~Flight() = default;
};

class SimulatedNetwork {
 public:
  // UsageError if this process had a simulation before: SimGrid can't start its clock again.
  explicit SimulatedNetwork(const SimulatedCluster&);

  simgrid::s4u::Host* host(int host) const { return hosts_[host]; }
  // Called on an actor. Returns at once (in virtual time).
  void fly(int from_host, int to_host, std::size_t bytes, Flight&);
  // Runs the simulation until no actor is left or none can go on.
  void run();

 private:
  // By SimGrid's record of the transfer, as an identity only.
  using Flights = std::unordered_map<const void*, Flight*>;

  simgrid::s4u::Engine* engine_;
  simgrid::kernel::resource::Model* model_ = nullptr;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::shared_ptr<Flights> flights_;  // shared with SimGrid's signal, which can't be disconnected
};

}  // namespace lockstep
