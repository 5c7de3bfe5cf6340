// What a strategy whose workers go together states of its steps: a linear map of everybody's
// numbers, and bytes. The audit and the contract suite hold it to that, and theory is tested on it.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/strategy.h"

namespace lockstep {

// What becomes of one part of one rank's numbers in a step.
struct Flow {
  Slice part;
  // The gradient this rank's optimiser steps with, as factors of the workers' gradients. Empty:
  // this rank's optimiser does not step here.
  std::vector<double> gradients;
  // The weights this rank ends with, as factors of the weights that each rank (servers too) has
  // right after its own optimiser's step, or had before where it takes none;
  std::vector<double> weights;
  // and of those it had before the step, and of this rank's own memories() as they were then.
  // Empty: none.
  std::vector<double> before = {}, memory = {};
};

class Statement {
 public:
  // The flows of `rank` in that step, the one about to be taken or just taken, for `count`
  // parameters. The parts lie side by side, cover all, and are the same for all ranks.
  virtual std::vector<Flow> flows(const Step&, int rank, std::size_t count) const = 0;
  // The same of memories()[which], in the same parts: the optimiser does not step them, so without
  // gradients.
  virtual std::vector<Flow> flows_of_memory(std::size_t /*which*/, const Step&, int /*rank*/,
                                            std::size_t /*count*/) const {
    return {};
  }
  // Bytes that `rank` sends in that step (for `shared`: reads from and writes to peers' memory).
  virtual std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const = 0;

  // What read_model() writes on `rank`, of all `count` parameters: as a Flow says of the weights
  // that a rank ends with, from what all hold now. Default, and without weights: the plain mean of
  // the workers' weights.
  virtual Flow flow_of_model(int /*rank*/, std::size_t /*count*/) const { return {}; }
  // Do all averages of weights, those flows in which all workers end alike, count every worker by
  // its samples since the last one? Then the model does, too.
  virtual bool averages_by_samples() const { return false; }

 protected:
  ~Statement() = default;
};

}  // namespace lockstep
