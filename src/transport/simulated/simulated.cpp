#include "transport/simulated/simulated.h"

#include <simgrid/s4u/Engine.hpp>

#include "transport/simulated/actor.h"
#include "transport/simulated/rank.h"

namespace lockstep {

void run_simulated(const SimulatedCluster& cluster, const Body& body) {
  check(cluster);
  SimulatedWorld world(cluster);
  std::exception_ptr first;
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (int r = 0; r < cluster.ranks; ++r)
    ranks.push_back(std::make_unique<SimulatedRank>(world, r));
  for (auto& rank : ranks)
    rank->start(body, [&first](std::exception_ptr error) {
      if (!first) first = std::move(error);
    });
  for (const auto& death : cluster.deaths)
    at_virtual_time(death.at_s, [&world, rank = death.rank] { world.die(rank); });

  std::string stuck;  // asked for now: after this SimGrid unwinds all actors and returns
  simgrid::s4u::Engine::on_deadlock_cb([&] {
    for (const auto& rank : ranks)
      if (!rank->finished()) stuck += (stuck.empty() ? "" : "; ") + rank->plight();
  });
  world.network.run();
  if (first) std::rethrow_exception(first);
  for (const auto& rank : ranks)
    if (!rank->finished()) throw InternalError("the simulation can't go on: " + stuck);
}

}  // namespace lockstep
