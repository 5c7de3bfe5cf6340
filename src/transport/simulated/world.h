// What the ranks of one simulation share: the network, the lanes, and who is gone. Touched by one
// actor at a time, or between actors, so without locks.
#pragma once

#include <memory>
#include <vector>

#include "transport/failure.h"
#include "transport/simulated/cluster.h"
#include "transport/simulated/mail.h"
#include "transport/simulated/network.h"
#include "transport/simulated/window.h"

namespace lockstep {

class SimulatedActor;

class SimulatedWorld {
 public:
  struct Fate {
    bool gone = false;
    bool died = false;  // then gone, too
    Blame blame;        // of a rank that left: see failure.h
  };

  explicit SimulatedWorld(const SimulatedCluster&);
  ~SimulatedWorld();

  // Opens rank r's next lane, on an actor that outlives the world's run. Call for all ranks before
  // the simulation starts.
  void open_lane(int rank, SimulatedActor&);
  SimulatedTransport& lane(int rank, int lane) { return *lanes_[rank][lane]; }

  const Fate& fate(int rank) const { return fates_[rank]; }
  // How many ranks are not gone.
  int present() const { return present_; }
  void blame(int rank, Blame blame) { fates_[rank].blame = blame; }
  // The error for `waiter`, which needs (peer, tag) of a rank that is gone.
  TransportError gone_error(int peer, int waiter, Tag tag) const;

  // The rank takes no further part. What it had under way is lost; whoever waits for it is woken.
  void leave(int rank) { part(rank, false); }
  // The same, and its lanes' actors are killed.
  void die(int rank);

  const SimulatedCluster cluster;
  SimulatedNetwork network;
  SimulatedMessages messages;
  SimulatedWindows windows;

 private:
  void part(int rank, bool died);

  std::vector<std::vector<std::unique_ptr<SimulatedTransport>>> lanes_;
  std::vector<Fate> fates_;
  int present_;
};

}  // namespace lockstep
