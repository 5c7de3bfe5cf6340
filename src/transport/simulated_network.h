// The wires of the simulated world: a SimGrid platform built from a SimulatedCluster, on which
// bytes fly from host to host. An idle network is exactly alpha-beta (see simulated_cluster.h).
// What one rank's lane sends to another goes out in order, one message after the other, as on a
// connection; messages of different pairs share the lines they have in common fairly.
#pragma once

#include <simgrid/forward.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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

  // Who sends to whom.
  struct Pair {
    int from_rank, from_host, to_rank, to_host, lane;
  };

  simgrid::s4u::Host* host(int host) const { return hosts_[host]; }
  // Called on an actor. Returns at once (in virtual time).
  void fly(const Pair&, std::size_t bytes, Flight&);
  // Runs the simulation until no actor is left or none can go on.
  void run();

 private:
  struct Connection {
    int from_host, to_host;
    struct Message {
      std::size_t bytes;
      Flight* flight;
      double due;  // when its first byte reaches the far end, if nothing is before it
    };
    std::deque<Message> messages;    // the first is under way,
    simgrid::s4u::CommPtr prepared;  // or about to be, by this
  };
  // By SimGrid's record of the transfer, as an identity only.
  using Flying = std::unordered_map<const void*, Connection*>;

  void start_at(double time, Connection&);
  void prepare_first(Connection&);
  void start_first(Connection&);
  void landed(Connection&);

  const double latency_s_, local_latency_s_;
  simgrid::s4u::Engine* engine_;
  simgrid::kernel::resource::Model* model_ = nullptr;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  // By virtual time, in the order asked for. One alarm rings for all that start together.
  std::map<double, std::vector<Connection*>> starts_;
  std::shared_ptr<Flying> flying_;  // shared with SimGrid's signal, which can't be disconnected
};

}  // namespace lockstep
