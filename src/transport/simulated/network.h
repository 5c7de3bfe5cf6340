// The wires of the simulated world: a SimGrid platform built from a SimulatedCluster, on which
// bytes fly from host to host. An idle network is exactly alpha-beta (see simulated.h).
// What one rank's lane sends to another goes out in order, one message after the other, as on a
// connection; messages of different pairs share the lines they have in common fairly.
//
// As over a real transport, bytes move only inside calls (see transport.h): a message of more than
// kEagerBytes starts when both lanes are inside calls, and stands still while one is not. Short
// ones fly on their own.
#pragma once

#include <simgrid/forward.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/simulated/simulated.h"

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
  ~SimulatedNetwork();

  // Who sends to whom.
  struct Pair {
    int from_rank, to_rank, lane;
  };

  simgrid::s4u::Host* host(int host) const { return hosts_[host]; }
  double latency_s(int from_rank, int to_rank) const;
  // Called on an actor. Returns at once (in virtual time). `due`: when its first byte reaches the
  // far end, if nothing is before it and that time is not over.
  void fly(const Pair&, std::size_t bytes, double due, Flight&);
  // The rank's thread of that lane does something else from now on, or is back. At first those of
  // ranks' own lanes are inside calls and others are not.
  void leaves_calls(int rank, int lane) {
    ends_[end_of(rank, lane)].away = true;
    settle_all(rank, lane);
  }
  void enters_call(int rank, int lane) {
    ends_[end_of(rank, lane)].away = false;
    settle_all(rank, lane);
  }
  // Runs the simulation until no actor is left or none can go on.
  void run();

 private:
  struct Connection;
  // Of all its connections.
  struct End {
    bool away = false;  // outside all calls
    std::vector<Connection*> connections = {};
  };
  struct Connection {
    const End &from, &to;
    int from_host, to_host;
    struct Message {
      std::size_t bytes;
      Flight* flight;
      double due;  // see fly()
    };
    std::deque<Message> messages = {};     // the first is under way,
    simgrid::s4u::CommPtr prepared = {};   // or about to be, by this,
    std::optional<double> starts_at = {};  // or will be, at that time,
    bool waits = false;                    // or due, and waits until both ends are inside calls
    simgrid::kernel::resource::Action* action = nullptr;  // of the first, while it flies
    bool stands = false;                                  // it has started, and stands still

    // The first message may not move now.
    bool held() const { return messages.front().bytes > kEagerBytes && (from.away || to.away); }
  };
  // By SimGrid's record of the transfer, as an identity only.
  using Flying = std::unordered_map<const void*, Connection*>;

  std::size_t end_of(int rank, int lane) const {
    return std::size_t(rank) * cluster_.lanes.count() + lane;
  }
  // Lets those move or stand still that have to.
  void settle_all(int rank, int lane);
  void settle(Connection&);
  void start_at(double time, Connection&);
  void prepare_first(Connection&);
  void start_first(Connection&);
  void landed(Connection&);

  const SimulatedCluster cluster_;
  std::vector<End> ends_;  // by rank and lane
  simgrid::s4u::Engine* engine_;
  simgrid::kernel::resource::Model* model_ = nullptr;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  // By virtual time, in the order asked for. One alarm rings for all that start together.
  std::map<double, std::vector<Connection*>> starts_;
  std::shared_ptr<Flying> flying_;  // shared with SimGrid's signal, which can't be disconnected
};

}  // namespace lockstep
