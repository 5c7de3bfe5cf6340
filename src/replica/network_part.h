// Some blocks of a network, known by what they hold.
#pragma once

#include "replica/network.h"

namespace lockstep {

// What those blocks hold, in the order of blocks.
std::vector<NamedTensor> parameters_of(std::span<const Block>);
std::vector<NamedTensor> buffers_of(std::span<const Block>);
// Copies numbers into tensors, one after another. InternalError unless there are as many.
void fill(std::span<const NamedTensor>, std::span<const float> numbers);

// A network that consists of `kept`, some of the whole's blocks: it holds what these hold, in their
// order, and save() writes that under the whole's names. The memory of all other blocks is let go.
// It is computed block by block, and so has no forward(). REQUIRES: no parameter is in two blocks.
std::unique_ptr<Network> network_part(std::unique_ptr<Network> whole, std::vector<Block> kept);

}  // namespace lockstep
