// What the blocks of a network cost on this machine: for the partitioner, and for pipelines that
// are simulated.
#pragma once

#include "parallel/partition.h"
#include "replica/network.h"

namespace lockstep {

// Times are medians of `repeats`, after one that is not counted, of a micro-batch such as `x`, with
// as many threads as LibTorch has. The network goes into training for that; its gradients and
// statistics are as before, and the random numbers that it draws are LibTorch's own. Counts the
// tensors of the process from then on (see tensor_bytes.h). UsageError if the network has no
// blocks.
NetworkCosts measure_blocks(Network&, const torch::Tensor& x, int repeats = 3);

}  // namespace lockstep
