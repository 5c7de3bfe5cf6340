// A rank of the simulated world: an actor for its body and for the jobs of each lane, virtual time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/fabric.h"
#include "transport/simulated/world.h"

namespace lockstep {

class SimulatedRank {
 public:
  // Opens the rank's lanes. The object must outlive the simulation.
  SimulatedRank(SimulatedWorld& world, int rank);
  ~SimulatedRank();

  // Before the simulation runs. When the body has returned or thrown (`failed` is then told at
  // once), the rank drops its background jobs, waits for the one that runs, and leaves.
  void start(const Body& body, std::function<void(std::exception_ptr)> failed);

  // Has it left or died?
  bool finished() const;
  // "rank 3 waits for messages", for a simulation that can't go on.
  std::string plight() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
