// The strategies that mutants.cmake makes wrong.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "strategies/registry.h"

namespace lockstep::testing {

struct Mutant {
  std::string bug, spec;
  StrategyMaker (*maker)(const Options&);

  std::unique_ptr<Strategy> make(const Crew& crew) const {
    return maker(strategy_options(spec)).make(crew);
  }
  friend std::ostream& operator<<(std::ostream& out, const Mutant& mutant) {
    return out << mutant.spec << ": " << mutant.bug;
  }
};

std::vector<Mutant> mutants();

}  // namespace lockstep::testing
