// Windows of the simulated world: plain memory. A meeting takes the local latency from the moment
// its last member comes; moved() takes bytes / local bandwidth.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/window.h"

namespace lockstep {

class SimulatedTransport;
class SimulatedWindow;
struct SimulatedMemory;

class SimulatedWindows {
 public:
  // See Transport::open_window.
  std::unique_ptr<Window> open(SimulatedTransport& who, std::size_t bytes,
                               std::span<const int> members);
  Window* at(SimulatedTransport& who, const void* address);

 private:
  friend class SimulatedWindow;

  using Opening = std::pair<int, std::vector<int>>;  // lane and members
  std::map<std::pair<int, Opening>, int> opened_;    // how many times this rank has
  std::map<std::pair<Opening, int>, std::weak_ptr<SimulatedMemory>> memories_;
  std::map<int, std::vector<SimulatedWindow*>> open_;  // by rank
};

}  // namespace lockstep
