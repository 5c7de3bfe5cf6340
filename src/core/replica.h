// What a strategy sees of a network: its weights and gradients as flat runs of numbers, and its
// optimiser. Implementations: replica/torch_replica.h (LibTorch), replica/sized_replica.h (hollow:
// sizes and no data), and toy ones in tests. One rank's own; belongs to that rank's thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/values.h"

namespace lockstep {

// One tensor of a network that is trained.
struct Parameter {
  std::string name;
  Slice slice;                      // of the flat weights and gradients
  std::vector<std::int64_t> shape;  // one extent: a bias, or a scale or shift of a normalisation
  int layer = 0;                    // counted from 0; a weight and its bias are of one layer
};

class Replica {
 public:
  virtual ~Replica() = default;

  // fp32, every parameter once, one after the other, in the same order on all ranks. The memory is
  // the replica's and stays in place; on one host it lies in windows that peers map. Either both
  // are hollow or none.
  virtual Values weights() = 0;
  // After backward: the gradient of the mean loss over this rank's own samples (zeros if it had
  // none).
  virtual Values gradients() = 0;
  // What the two are made of: side by side, in order, without gaps. The same on all ranks.
  virtual std::span<const Parameter> parameters() const = 0;

  // The optimiser's rule with the learning rate of step `step` (from 0) on `part`, which it has
  // updated `updates` times before (bias corrections go by that): reads gradients(), writes
  // weights() and the optimiser's own state. The gradients of `part` are consumed: what they hold
  // afterwards is not specified, and whoever wants to write there before the next backward asks for
  // gradients() anew.
  //
  // The step counts for `share`: a rule that is linear in the gradients takes so many times those,
  // and one that is blind to their scale so many times the rate.
  virtual void apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates,
                               double share) = 0;

  // The same of a step that counts for one,
  void apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates) {
    apply_gradients(step, part, updates, 1);
  }
  // and where every step updates every element once.
  void apply_gradients(std::uint64_t step, Slice part) { apply_gradients(step, part, step); }
  void apply_gradients(std::uint64_t step, double share = 1) {
    apply_gradients(step, {0, weights().count()}, step, share);
  }

  // Does the optimiser's rule need whole layers? Then `part` may not cut one, and the caller, who
  // does not know where layers begin, gives all of them at once. UsageError.
  virtual bool needs_whole_layers() const { return false; }

  // The learning rate of that step.
  virtual double learning_rate(std::uint64_t step) const = 0;
  // The optimiser starts anew: its state is as before the first step.
  virtual void forget() = 0;
};

}  // namespace lockstep
