#include "replica/split_backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace lockstep {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

bool splits(const Node& node) {
  static constexpr std::array kNames = {"ConvolutionBackward0", "AddmmBackward0", "MmBackward0"};
  return std::ranges::find(kNames, node.name()) != kNames.end();
}

// The accumulator of a leaf that this edge leads to without a computation; a dense layer's weights
// are transposed on the way. nullptr: none.
AccumulateGrad* leaf_at(const Edge& edge) {
  Node* node = edge.function.get();
  while (node && node->name() == "TBackward0") node = node->next_edge(0).function.get();
  return dynamic_cast<AccumulateGrad*>(node);
}

Tensors run(const torch::autograd::edge_list& roots, const Tensors& gradients, bool again,
            bool accumulate, const torch::autograd::edge_list& wanted) {
  return torch::autograd::Engine::get_default_engine().execute(roots, gradients, again, false,
                                                               accumulate, wanted);
}

}  // namespace

// What lies between a stage's outputs and its leaves.
class SplitBackward::Graph {
 public:
  Graph(const torch::autograd::edge_list& roots, const Tensors& inputs) {
    for (const torch::Tensor& input : inputs) inputs_.insert(input.unsafeGetTensorImpl());
    std::vector<std::shared_ptr<Node>> open;
    const auto visit = [&](const Edge& edge) {
      if (!edge.is_valid()) return;
      if (auto* leaf = dynamic_cast<AccumulateGrad*>(edge.function.get())) ++uses_[leaf];
      if (seen_.insert(edge.function.get()).second) open.push_back(edge.function);
    };
    for (const Edge& root : roots) visit(root);
    while (!open.empty()) {
      const std::shared_ptr<Node> node = std::move(open.back());
      open.pop_back();
      nodes_.push_back(node);
      for (const Edge& edge : node->next_edges()) visit(edge);
    }
  }

  // Operations whose parameters nothing else uses.
  std::vector<Part> parts() {
    std::vector<Part> found;
    for (const auto& node : nodes_) {
      if (!splits(*node)) continue;
      Part part{node, {}, {}};
      bool alone = true;
      for (const Edge& edge : node->next_edges()) {
        AccumulateGrad* const leaf = leaf_at(edge);
        if (!leaf || inputs_.contains(leaf->variable.unsafeGetTensorImpl())) continue;
        part.parameters.push_back(torch::autograd::impl::gradient_edge(leaf->variable));
        alone = alone && uses_[leaf] == 1;
      }
      if (!alone || part.parameters.empty()) continue;
      for (const Edge& edge : part.parameters) waiting_.insert(edge.function.get());
      found.push_back(std::move(part));
    }
    return found;
  }

  // After parts() and the first pass: lets go of what the second does not need.
  void release_others(const std::vector<Part>& parts) {
    std::unordered_set<const Node*> needed;
    for (const Part& part : parts) needed.insert(part.operation.get());
    for (const auto& node : nodes_)
      if (!needed.contains(node.get())) node->release_variables();
  }

  // After parts(): the parameters of none of them.
  Tensors others() const {
    Tensors found;
    for (const auto& node : nodes_)
      if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node.get()))
        if (!waiting_.contains(leaf) && !inputs_.contains(leaf->variable.unsafeGetTensorImpl()))
          found.push_back(leaf->variable);
    return found;
  }

 private:
  std::unordered_set<const c10::TensorImpl*> inputs_;
  std::unordered_set<const Node*> seen_, waiting_;
  std::unordered_map<const AccumulateGrad*, int> uses_;
  std::vector<std::shared_ptr<Node>> nodes_;
};

Tensors SplitBackward::inputs(const Tensors& outputs, const Tensors& gradients,
                              const Tensors& inputs) {
  torch::autograd::edge_list roots, wanted;
  Tensors of_roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(outputs[i]));
    of_roots.push_back(gradients.at(i));
  }
  Tensors made(inputs.size());
  if (roots.empty()) return made;

  Graph graph(roots, inputs);
  parts_ = graph.parts();
  const Tensors others = graph.others();
  for (const Part& part : parts_) wanted.emplace_back(part.operation, 0);
  for (const torch::Tensor& other : others)
    wanted.push_back(torch::autograd::impl::gradient_edge(other));
  for (const torch::Tensor& input : inputs)
    if (input.requires_grad()) wanted.push_back(torch::autograd::impl::gradient_edge(input));

  const Tensors found = run(roots, of_roots, true, false, wanted);
  graph.release_others(parts_);
  auto next = found.begin();
  for (Part& part : parts_) part.gradient = *next++;
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& other : others) {
    if (const torch::Tensor gradient = *next++; gradient.defined())
      other.grad().defined() ? void(other.mutable_grad().add_(gradient))
                             : void(other.mutable_grad() = gradient.clone());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) made[i] = *next++;
  return made;
}

void SplitBackward::weights() {
  for (Part& part : parts_)
    if (part.gradient.defined())
      run({{part.operation, 0}}, {part.gradient}, false, true, part.parameters);
  parts_.clear();
}

}  // namespace lockstep
