// Which transports join the ranks of a job, and how they are opened: shared memory on a host, UCX
// between hosts. In three steps, as a rank gets to know the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/protocol_types.h"
#include "cluster/start.h"
#include "transport/deaths.h"
#include "transport/shm_host.h"
#include "transport/transport.h"
#include "transport/ucx_peers.h"
#include "transport/ucx_worker.h"

namespace lockstep {

// The number of each rank's host, from 0 in order of first rank.
std::vector<int> hosts_of(const std::vector<protocol::Member>& members);

class Wiring {
 public:
  // `address` is this rank's own on the way to the coordinator: where no interface was asked for,
  // UCX uses that one. UsageError if the transport or the interface can't reach all ranks. `deaths`
  // outlives the lanes.
  Wiring(const Start&, std::vector<int> host_of, const std::string& address,
         double patience_seconds, Deaths& deaths);

  // What this rank offers to the others.
  int memory_fd() const;  // -1: nothing
  std::vector<std::string> addresses() const;

  // With what all ranks offered. Once.
  std::vector<std::unique_ptr<Transport>> open_lanes(const std::vector<protocol::Member>& members);

 private:
  int leader() const;  // the lowest rank of this host
  void admit_only(const std::vector<protocol::Member>& members);
  std::unique_ptr<Transport> open_lane(int lane, const std::vector<protocol::Member>& members);

  const ShmOptions place_;
  const Seal seal_;
  Deaths& deaths_;
  bool near_ = false, far_ = false;  // shared memory; UCX
  std::shared_ptr<ShmHost> host_;
  std::vector<std::unique_ptr<UcxWorker>> workers_;  // by lane
};

}  // namespace lockstep
