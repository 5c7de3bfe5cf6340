// What a strategy whose workers go together states of its steps: a linear map of everybody's
// numbers, and bytes. The audit and the contract suite hold it to that, and theory is tested on it.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/strategy.h"

namespace lockstep {

// A memory of a rank, memories()[which] there, as part of a sum: so many times what it was before
// the step, and so many times what it is afterwards.
struct OfMemory {
  int rank;
  std::size_t which;
  double before = 0, after = 0;
};

// How numbers stand to the sum that is stated of them. Let S be the sum of the norms of its terms,
// each with its factor. What rounding adds is for the audit to know (see projection.h).
struct Holds {
  enum class How {
    exactly,    // they are the sum
    within,     // their distance from the sum is at most by·S + plus·√N: what encoding may lose
    shrunk,     // their own norm is at most that: what a contraction may leave in a memory
    not_stated  // nothing is said of them
  } how = How::exactly;
  double by = 0;
  double plus = 0;  // for each of N numbers, however small they are
  double size = 0;  // above 0: besides, each number is this or its negative
};

// What becomes of one part of one rank's numbers in a step.
struct Flow {
  Slice part;
  // The gradient this rank's optimiser steps with, as factors of the workers' gradients. Empty:
  // this rank's optimiser does not step here.
  std::vector<double> gradients;
  // The weights this rank ends with, as factors of the weights that each rank (servers too) has
  // right after its own optimiser's step, or had before where it takes none;
  std::vector<double> weights;
  // and of those it had before the step, and of this rank's own memories() as they were then (of
  // the first, where there are fewer factors). Empty: none.
  std::vector<double> before = {}, memory = {};
  // What a mean with memories adds to those gradients, and to those weights: memories of any rank.
  std::vector<OfMemory> memories_in_gradients = {}, memories_in_weights = {};
  Holds gradients_hold = {}, weights_hold = {};
};

class Statement {
 public:
  // The flows of `rank` in that step, the one about to be taken or just taken, for `count`
  // parameters. The parts lie side by side, cover all, and are the same for all ranks.
  virtual std::vector<Flow> flows(const Step&, int rank, std::size_t count) const = 0;
  // The same of memories()[which], in the same parts. The optimiser does not step them: gradients,
  // if any, are added to what is said of weights.
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
