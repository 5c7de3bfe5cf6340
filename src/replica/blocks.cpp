#include "replica/blocks.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

bool holds_something(const Block& block) {
  return !block.parameters.empty() || !block.buffers.empty();
}

// One of the two lists, for share_out().
std::string share_out(const std::vector<NamedTensor>& all, std::vector<NamedTensor> Block::*held,
                      std::vector<Block>& blocks) {
  std::unordered_map<const c10::TensorImpl*, Block*> holder;
  for (Block& block : blocks)
    for (const auto& [name, tensor] : std::exchange(block.*held, {})) {
      if (!tensor.defined()) continue;
      const auto [found, fresh] = holder.emplace(tensor.unsafeGetTensorImpl(), &block);
      if (found->second != &block)
        return fmt::format("'{}' and '{}' both hold a '{}'", found->second->name, block.name, name);
    }
  for (const NamedTensor& own : all) {
    const auto found = holder.find(own.tensor.unsafeGetTensorImpl());
    if (found == holder.end()) return fmt::format("none of them holds '{}'", own.name);
    (found->second->*held).push_back(own);
  }
  return {};
}

std::string flaw_of_names(const std::vector<Block>& blocks) {
  std::map<std::string, std::string> given;  // and by which block
  for (const Block& block : blocks) {
    for (const std::string& name : block.takes)
      if (!given.contains(name))
        return fmt::format("'{}' takes '{}', which none before it gives", block.name, name);
    for (const std::string& name : block.gives)
      if (const auto [found, fresh] = given.emplace(name, block.name); !fresh)
        return fmt::format("'{}' and '{}' both give '{}'", found->second, block.name, name);
  }
  return {};
}

}  // namespace

Block block_of(std::string name, const Modules& modules, std::vector<std::string> takes,
               std::vector<std::string> gives, Block::Run forward) {
  Block block{std::move(name), std::move(takes), std::move(gives), {}, {}, {}};
  for (const auto& module : modules) {
    for (const auto& item : module->named_parameters())
      block.parameters.push_back({item.key(), item.value()});
    for (const auto& item : module->named_buffers())
      block.buffers.push_back({item.key(), item.value()});
  }
  block.forward = [modules, forward = std::move(forward)](const torch::Tensor& x,
                                                          std::span<const torch::Tensor> taken) {
    return forward(x, taken);
  };
  return block;
}

Block block_of(std::string name, const Modules& modules, Forward forward) {
  return block_of(std::move(name), modules, {}, {},
                  [forward = std::move(forward)](const torch::Tensor& x,
                                                 std::span<const torch::Tensor>) -> Block::Output {
                    return {forward(x), {}};
                  });
}

std::vector<Block> blocks_of(torch::nn::SequentialImpl& layers, const std::string& prefix) {
  const auto children = layers.named_children();
  std::vector<Block> blocks;
  for (torch::nn::AnyModule& child : layers)
    blocks.push_back(
        block_of(prefix + children[blocks.size()].key(), {child.ptr()},
                 [child](const torch::Tensor& x) mutable { return child.forward(x); }));
  return joined(std::move(blocks));
}

std::unique_ptr<Network> sequential_network(std::shared_ptr<torch::nn::SequentialImpl> layers) {
  const Forward forward = [&layers = *layers](const torch::Tensor& x) { return layers.forward(x); };
  std::vector<Block> blocks = blocks_of(*layers);
  auto whole = native_network(layers, forward);
  if (!share_out(*whole, blocks).empty()) return whole;
  return native_network(std::move(layers), forward, std::move(blocks));
}

std::unique_ptr<Network> network_of_blocks(std::shared_ptr<torch::nn::Module> module,
                                           std::vector<Block> blocks) {
  const Forward forward = [blocks](const torch::Tensor& x) { return run_blocks(blocks, x); };
  return native_network(std::move(module), forward, std::move(blocks));
}

torch::Tensor run_blocks(std::span<const Block> blocks, torch::Tensor x) {
  std::map<std::string, torch::Tensor> given;
  for (const Block& block : blocks) {
    std::vector<torch::Tensor> taken;
    for (const std::string& name : block.takes) taken.push_back(given.at(name));
    Block::Output output = block.forward(x, taken);
    for (std::size_t i = 0; i < block.gives.size(); ++i) given[block.gives[i]] = output.given.at(i);
    x = std::move(output.main);
  }
  return x;
}

std::vector<Block> joined(std::vector<Block> chain) {
  std::vector<Block> blocks;
  for (Block& next : chain) {
    if (blocks.empty() || (holds_something(blocks.back()) && holds_something(next))) {
      blocks.push_back(std::move(next));
      continue;
    }
    Block& both = blocks.back();
    both.forward = [first = both.forward, second = next.forward](const torch::Tensor& x,
                                                                 std::span<const torch::Tensor>) {
      return second(first(x, {}).main, {});
    };
    if (!holds_something(next)) continue;
    both.name = std::move(next.name);
    both.parameters = std::move(next.parameters);
    both.buffers = std::move(next.buffers);
  }
  return blocks;
}

std::string share_out(const Network& network, std::vector<Block>& blocks) {
  std::string flaw = share_out(network.parameters(), &Block::parameters, blocks);
  if (flaw.empty()) flaw = share_out(network.buffers(), &Block::buffers, blocks);
  return flaw.empty() ? flaw_of_names(blocks) : flaw;
}

}  // namespace lockstep
