// Some blocks of a network side by side, at work on one micro-batch: a stage of a pipeline. What
// passes between stages are tensors with names; the main path's is "".
#pragma once

#include "replica/network.h"

namespace lockstep {

using Tensors = std::vector<torch::Tensor>;

class BlockRun {
 public:
  // `takes`: what comes from earlier stages, or to the first one as the batch. `gives`: what is
  // handed on, one for each that it is handed to, so that a name may be there twice. UsageError
  // names the block that takes what is neither taken nor given by a block before it.
  BlockRun(std::vector<Block>, std::vector<std::string> takes, std::vector<std::string> gives);

  std::span<const Block> blocks() const { return blocks_; }
  // Called before each block of a forward, with its place among the blocks.
  using Before = std::function<void(std::size_t block)>;
  // In the order of `takes`; returns what is handed on, in the order of `gives`. A tensor is let go
  // when the last block that needs it is done.
  Tensors forward(const Tensors& taken, const Before& = {}) const;

 private:
  std::vector<Block> blocks_;
  std::vector<std::string> takes_, gives_;
  std::vector<std::vector<std::string>> dropped_;  // by block: names that none needs after it
};

// A copy that shares the numbers and begins a graph of its own: what autograd is asked for the
// gradient of. Integers have none.
torch::Tensor leaf_of(const torch::Tensor&);

// One backward of all that a stage has handed on, given the gradients of it. Adds to the gradients
// of the parameters, and returns those of `inputs`, which are leaves; an undefined one stands for
// zeros.
Tensors backward(const Tensors& outputs, const Tensors& gradients, const Tensors& inputs);

}  // namespace lockstep
