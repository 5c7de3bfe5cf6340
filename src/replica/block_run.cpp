#include "replica/block_run.h"

#include <map>

#include "core/error.h"

namespace lockstep {

BlockRun::BlockRun(std::vector<Block> blocks, std::vector<std::string> takes,
                   std::vector<std::string> gives)
    : blocks_(std::move(blocks)),
      takes_(std::move(takes)),
      gives_(std::move(gives)),
      dropped_(blocks_.size()) {
  std::map<std::string, std::size_t> last_use;  // by name
  for (const std::string& name : takes_) last_use[name] = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const std::string& name : blocks_[i].takes) {
      if (!last_use.contains(name))
        throw UsageError(fmt::format("block '{}' takes '{}', which no block before it gives",
                                     blocks_[i].name, name));
      last_use[name] = i;
    }
    for (const std::string& name : blocks_[i].gives) last_use[name] = i;
  }
  for (const std::string& name : gives_) last_use.erase(name);
  for (const auto& [name, block] : last_use)
    if (!name.empty()) dropped_[block].push_back(name);
}

Tensors BlockRun::forward(const Tensors& taken, const Before& before) const {
  std::map<std::string, torch::Tensor> named;
  for (std::size_t i = 0; i < takes_.size(); ++i) named[takes_[i]] = taken.at(i);
  torch::Tensor& main = named[""];
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    Tensors extra;
    for (const std::string& name : block.takes) extra.push_back(named.at(name));
    if (before) before(i);
    Block::Output made = block.forward(main, extra);
    main = std::move(made.main);
    for (std::size_t g = 0; g < block.gives.size(); ++g)
      named[block.gives[g]] = std::move(made.given.at(g));
    for (const std::string& name : dropped_[i]) named.erase(name);
  }
  Tensors out;
  for (const std::string& name : gives_) out.push_back(named.at(name));
  return out;
}

torch::Tensor leaf_of(const torch::Tensor& tensor) {
  torch::Tensor leaf = tensor.detach();
  if (leaf.is_floating_point()) leaf.requires_grad_();
  return leaf;
}

Tensors backward(const Tensors& outputs, const Tensors& gradients, const Tensors& inputs) {
  Tensors roots, of_roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;  // it depends on no parameter
    roots.push_back(outputs[i]);
    of_roots.push_back(gradients.at(i));
  }
  if (!roots.empty()) torch::autograd::backward(roots, of_roots);
  Tensors made;
  for (const torch::Tensor& input : inputs) made.push_back(input.grad());
  return made;
}

}  // namespace lockstep
