// What a run ran on, as far as it matters to compare figures.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct Machine {
  std::string host, processor, kernel;
  int cores = 1;  // that this process may use
  std::uint64_t memory_bytes = 0;
};
Machine this_machine();

}  // namespace lockstep
