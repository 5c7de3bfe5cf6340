#include "transport/simulated/world.h"

#include "transport/simulated/transport.h"

namespace lockstep {

SimulatedWorld::SimulatedWorld(const SimulatedCluster& c)
    : cluster(c), network(c), lanes_(c.ranks), fates_(c.ranks), present_(c.ranks) {}

SimulatedWorld::~SimulatedWorld() = default;

void SimulatedWorld::open_lane(int rank, SimulatedActor& actor) {
  const int number = static_cast<int>(lanes_[rank].size());
  lanes_[rank].push_back(std::make_unique<SimulatedTransport>(*this, rank, number, actor));
}

TransportError SimulatedWorld::gone_error(int peer, int waiter, Tag tag) const {
  if (fates_[peer].died) return died(peer, "the simulation's schedule of faults says so");
  return gone(peer, fates_[peer].blame, waiter, tag);
}

void SimulatedWorld::die(int rank) {
  if (fates_[rank].gone) return;
  part(rank, true);
  for (auto& lane : lanes_[rank]) lane->actor().kill();
}

void SimulatedWorld::part(int rank, bool died) {
  fates_[rank].gone = true;
  fates_[rank].died = died;
  --present_;
  for (auto& lane : lanes_[rank]) lane->close();
  for (auto& lanes : lanes_)
    for (auto& lane : lanes) lane->wake_if_awaiting(rank);
}

}  // namespace lockstep
