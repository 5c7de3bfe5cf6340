// The worlds a contract suite runs over: each starts n ranks and runs a body on every one.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/simulated/simulated.h"

namespace lockstep::testing {

struct World {
  std::string name;
  std::function<void(int ranks, const Body&, const FabricOptions&)> run;
  friend std::ostream& operator<<(std::ostream& out, const World& w) { return out << w.name; }
};

inline void run_simulated_fabric(int ranks, const Body& body, const FabricOptions& options) {
  SimulatedCluster cluster;
  cluster.ranks = ranks;
  cluster.ranks_per_host = options.ranks_per_host > 0 ? options.ranks_per_host : ranks;
  cluster.seed = options.seed;
  cluster.patience_s = options.patience_seconds;
  cluster.lanes = options.lanes;
  run_simulated(cluster, body);
}

// Until all jobs posted so far are done.
inline void drain(Background& background) {
  background.wait(background.post([](Transport&) {}));
}

// Every transport; decorators add themselves in the tests that cover them.
inline std::vector<World> worlds() {
  return {
      {"loopback", run_loopback},
      {"ucx", run_ucx},
      {"routed",
       [](int ranks, const Body& body, FabricOptions options) {
         options.ranks_per_host = 2;
         run_routed(ranks, body, options);
       }},
      {"shm", run_shm},
      {"simulated", run_simulated_fabric},
  };
}

}  // namespace lockstep::testing
