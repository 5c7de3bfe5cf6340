// A backward in two passes: the gradients of a stage's inputs, which the stage before waits for,
// and later those of its weights, which nobody waits for (Qi et al., Zero bubble pipeline
// parallelism, 2024).
//
// It is split at each operation by itself: the first pass keeps the gradients that arrive at
// convolutions and dense layers, and the second starts from those, so that none of the chain
// between them is computed twice. Other operations with parameters, such as batch norm, compute
// both gradients at once: theirs belong to the first pass.
#pragma once

#include "replica/block_run.h"

namespace lockstep {

class SplitBackward {
 public:
  // The first pass. As backward(), of the inputs and of parameters that can't be told apart.
  Tensors inputs(const Tensors& outputs, const Tensors& gradients, const Tensors& inputs);
  // The second, once: adds to the gradients of the other parameters. What autograd has kept of the
  // forward is free then.
  void weights();

 private:
  // An operation whose parameters can wait.
  struct Part {
    std::shared_ptr<torch::autograd::Node> operation;
    torch::autograd::edge_list parameters;
    torch::Tensor gradient;  // of its output
  };
  class Graph;

  std::vector<Part> parts_;
};

}  // namespace lockstep
