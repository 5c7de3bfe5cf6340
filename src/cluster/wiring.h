// Which transports join the ranks of a job, and how they are opened: shared memory on a host, UCX
// between hosts. Step by step, as a rank gets to know the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/protocol_types.h"
#include "cluster/start.h"
#include "transport/deaths.h"
#include "transport/shm/host.h"
#include "transport/ucx/ucx.h"

namespace lockstep {

// The number of each rank's host, from 0 in order of first rank.
std::vector<int> hosts_of(const std::vector<protocol::Member>& members);

class Wiring {
 public:
  // `members`: who is where. `address` is this rank's own on the way to the coordinator: where no
  // interface was asked for, UCX uses that one. From here on the members' hosts, and they alone,
  // can connect. UsageError if the transport or the interface can't reach all ranks, or if this
  // process may not open enough descriptors. `deaths` outlives the lanes.
  Wiring(const Start&, const std::vector<protocol::Member>& members, const std::string& address,
         double patience_seconds, Lanes lanes, Deaths& deaths);

  // What this rank offers to the others.
  int memory_fd() const;  // -1: nothing
  std::vector<std::string> addresses() const;

  // With what all ranks offered. Once. UsageError names a rank that asks for other lanes.
  std::vector<std::unique_ptr<Transport>> open_lanes(const std::vector<protocol::Member>& members);
  // While the lanes live: connects this rank with all that UCX reaches, in so many seconds at most.
  // Returns those that have not answered yet on all lanes: call again until all ranks have met
  // everybody, since answers to others leave inside this call. TransportError names a rank that
  // can't be reached.
  std::vector<int> meet_everybody(double seconds);
  // When all ranks have met everybody: nobody can connect to this rank any more, not even from the
  // job's own hosts. UCX would read whatever came, and keep a descriptor for it.
  void close_doors();

 private:
  int leader() const;  // the lowest rank of this host
  void admit_only(const std::vector<protocol::Member>& members);
  std::unique_ptr<Transport> open_lane(int lane, const std::vector<protocol::Member>& members);

  const ShmOptions place_;
  const Seal seal_;
  Deaths& deaths_;
  bool near_ = false, far_ = false;  // shared memory; UCX
  std::shared_ptr<ShmHost> host_;
  std::vector<std::unique_ptr<UcxWorker>> workers_;  // by lane, until it is opened;
  std::vector<UcxTransport*> far_lanes_;             // then these
};

}  // namespace lockstep
