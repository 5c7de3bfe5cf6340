// Something that can do the work and be timed: our ranks in processes, in threads, in simulation,
// or another library's. Engines in one run take turns; an engine whose turn it is not uses no
// processor time.
#pragma once

#include <string>

#include "bench/work.h"

namespace lockstep::bench {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const std::string& name() const = 0;
  // Returns when all ranks of the engine have answered. InternalError names the engine and the rank
  // that failed; Interrupted after Ctrl-C. After either the engine is good only for destruction.
  virtual Result measure(const Work&) = 0;
};

}  // namespace lockstep::bench
