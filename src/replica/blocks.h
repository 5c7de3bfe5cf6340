// Networks as lists of blocks: how blocks are made of modules, and run one after another.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "replica/network.h"

namespace lockstep {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

// A block that holds what those modules hold, and keeps them alive.
Block block_of(std::string name, const Modules&, Forward);
Block block_of(std::string name, const Modules&, std::vector<std::string> takes,
               std::vector<std::string> gives, Block::Run);
// A Sequential's blocks, called by the names of its children after `prefix`. A child that holds
// nothing (a rectifier, a pool) belongs to the block before it; at the start, to the one after.
std::vector<Block> blocks_of(torch::nn::SequentialImpl&, const std::string& prefix = "");

// A network whose forward() runs these blocks. `module` registers all that they hold: it says names
// and order, and is what is saved. UsageError as native_network() says.
std::unique_ptr<Network> network_of_blocks(std::shared_ptr<torch::nn::Module> module,
                                           std::vector<Block>);

// What the blocks of a whole network compute, one after another.
torch::Tensor run_blocks(std::span<const Block>, torch::Tensor x);

// For networks. Of blocks that go one after another and neither take nor give: each that holds
// nothing becomes a part of its neighbour, as in blocks_of().
std::vector<Block> joined(std::vector<Block>);
// Replaces what each block holds by the network's own list of it: those parameters and buffers that
// the network has, under its names and in its order. Returns what is wrong with the blocks, or
// nothing: each must be held by exactly one block, and a tensor that one takes be given by one
// before it alone.
std::string share_out(const Network&, std::vector<Block>&);

}  // namespace lockstep
