// A network of TorchScript, and the chain of modules that it may be.
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <map>

#include "core/error.h"
#include "replica/blocks.h"
#include "replica/network.h"

namespace lockstep {
namespace {

namespace jit = torch::jit;

// Interpreted as written. LibTorch's optimiser would rewrite the graph after watching some calls,
// and its rounding with it: a run's bits would hang on how often the network was called before, and
// a resumed run would part from the one it continues.
jit::IValue call(jit::Module& module, const torch::Tensor& x) {
  const jit::GraphOptimizerEnabledGuard as_written(false);
  return module.forward({x});
}

struct Part {
  std::string name;
  jit::Module module;
};

// The children that forward() calls one after another, each with the tensor that the one before
// returned, in that order. None if it does anything else: the graph says so for every input, where
// an output that happens to be the same would say so for one.
std::vector<std::string> chain_in(const jit::Module& module) {
  const auto method = module.find_method("forward");
  if (!method || method->graph()->inputs().size() != 2) return {};
  const auto graph = method->graph();
  const jit::Value *self = graph->inputs()[0], *x = graph->inputs()[1];
  std::map<const jit::Value*, std::string> children;
  std::vector<std::string> chain;
  for (const jit::Node* node : graph->nodes()) {
    if (node->kind() == c10::prim::Constant) continue;
    if (node->kind() == c10::prim::GetAttr && node->input() == self) {
      children[node->output()] = node->s(c10::attr::name);
      continue;
    }
    const bool goes_on = node->kind() == c10::prim::CallMethod &&
                         node->s(c10::attr::name) == "forward" && node->inputs().size() == 2 &&
                         children.contains(node->input(0)) && node->input(1) == x &&
                         node->output()->type()->isSubtypeOf(*c10::TensorType::get());
    if (!goes_on) return {};
    chain.push_back(children[node->input(0)]);
    x = node->output();
  }
  if (graph->outputs().size() != 1 || graph->outputs()[0] != x) return {};
  return chain;
}

// As far as chains go down.
void add_parts(const jit::Module& module, const std::string& name, std::vector<Part>& parts) {
  const std::vector<std::string> chain = chain_in(module);
  if (chain.empty()) parts.push_back({name, module});
  for (const std::string& child : chain)
    add_parts(module.attr(child).toModule(), name.empty() ? child : name + "." + child, parts);
}

template <class List>
std::vector<NamedTensor> listed(const List& list) {
  std::vector<NamedTensor> out;
  for (const auto& item : list) out.push_back({item.name, item.value});
  return out;
}

Block block_of(const Part& part) {
  const auto forward = [module = part.module](
                           const torch::Tensor& x,
                           std::span<const torch::Tensor>) mutable -> Block::Output {
    return {call(module, x).toTensor(), {}};
  };
  return {part.name,
          {},
          {},
          listed(part.module.named_parameters()),
          listed(part.module.named_buffers()),
          forward};
}

class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(jit::Module module, std::string origin)
      : module_(std::move(module)), origin_(std::move(origin)) {}

  torch::Tensor forward(const torch::Tensor& x) override {
    const jit::IValue y = call(module_, x);
    if (y.isTensor()) return y.toTensor();
    throw UsageError(
        fmt::format("'{}' returns a {}: let it return one tensor", origin_, y.tagKind()));
  }
  std::vector<Block> blocks() const override {
    std::vector<Part> parts;
    add_parts(module_, "", parts);
    std::vector<Block> chain;
    for (const Part& part : parts) chain.push_back(block_of(part));
    std::vector<Block> blocks = joined(std::move(chain));
    if (parts.size() < 2 || !share_out(*this, blocks).empty()) return {};
    return blocks;
  }
  void train(bool on) override { module_.train(on); }

 private:
  std::vector<NamedTensor> all_parameters() const override {
    return listed(module_.named_parameters());
  }
  std::vector<NamedTensor> all_buffers() const override { return listed(module_.named_buffers()); }

  void write(const std::string& path) const override { module_.save(path); }
  std::string origin() const override { return origin_; }

  jit::Module module_;
  std::string origin_;
};

}  // namespace

std::unique_ptr<Network> load_script(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw UsageError(fmt::format("no model file '{}'", path));
  try {
    return std::make_unique<ScriptNetwork>(jit::load(path, torch::kCPU), path);
  } catch (const std::exception&) {  // LibTorch's own text is its stack, over many lines
    throw UsageError(fmt::format(
        "'{}' is not a TorchScript file: write one with torch.jit.script(model).save(…)", path));
  }
}

}  // namespace lockstep
