#include "train/measure_blocks.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "replica/split_backward.h"
#include "replica/tensor_bytes.h"
#include "transport/real_rank.h"

namespace lockstep {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// A block by itself, between leaves: what it is given, and what it made of it.
struct Alone {
  const Block& block;
  torch::Tensor main;  // of the block before
  bool is_first;       // what the first block reads needs no gradient
  Tensors taken;

  struct Forward {
    Tensors inputs;   // leaves
    Tensors outputs;  // the main path's first, then what it gives
  };
  Forward forward() const {
    Forward made;
    made.inputs.push_back(is_first ? main : leaf_of(main));
    for (const torch::Tensor& one : taken) made.inputs.push_back(leaf_of(one));
    Block::Output output = block.forward(made.inputs[0], std::span(made.inputs).subspan(1));
    made.outputs.push_back(std::move(output.main));
    for (torch::Tensor& given : output.given) made.outputs.push_back(std::move(given));
    return made;
  }
};

Tensors ones_like(const Tensors& tensors) {
  Tensors ones;
  for (const torch::Tensor& one : tensors) ones.push_back(torch::ones_like(one.detach()));
  return ones;
}

// How long the passes take. Backward is measured whole and for the inputs alone, and the weights'
// part is what is left: so schedules that don't split it get its time as it is.
PassTimes times_of(const Alone& alone, int repeats) {
  std::vector<double> forward_s, backward_s, inputs_s;
  for (int i = -1; i < repeats; ++i) {
    const double start = wall_now();
    Alone::Forward made = alone.forward();
    const double forward_end = wall_now();
    const Tensors gradients = ones_like(made.outputs);
    const double whole_begin = wall_now();
    backward(made.outputs, gradients, made.inputs);
    const double whole_end = wall_now();
    made = alone.forward();
    SplitBackward split;
    const double inputs_begin = wall_now();
    split.inputs(made.outputs, gradients, made.inputs);
    const double inputs_end = wall_now();
    if (i < 0) continue;
    forward_s.push_back(forward_end - start);
    backward_s.push_back(whole_end - whole_begin);
    inputs_s.push_back(inputs_end - inputs_begin);
  }
  const double whole_s = median(backward_s), first_s = std::min(median(inputs_s), whole_s);
  return {median(forward_s), first_s, whole_s - first_s};
}

// Parameters without gradients, and statistics, as they were.
class Untouched {
 public:
  explicit Untouched(Network& network) {
    for (const NamedTensor& one : network.parameters()) {
      parameters_.push_back(one.tensor);
      gradients_.push_back(one.tensor.grad());
      one.tensor.mutable_grad() = torch::Tensor();
    }
    for (const NamedTensor& one : network.buffers()) {
      buffers_.push_back(one.tensor);
      statistics_.push_back(one.tensor.clone());
    }
  }
  ~Untouched() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].mutable_grad() = gradients_[i];
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(statistics_[i]);
  }
  Untouched(const Untouched&) = delete;

 private:
  Tensors parameters_, gradients_, buffers_, statistics_;
};

}  // namespace

NetworkCosts measure_blocks(Network& network, const torch::Tensor& x, int repeats) {
  const std::vector<Block> blocks = network.blocks();
  if (blocks.empty())
    throw UsageError("the network can't be cut into stages: it is not a list of blocks");
  count_tensor_bytes();
  const Untouched untouched(network);
  network.train(true);
  NetworkCosts costs;
  costs.input_bytes = x.nbytes();
  struct SkipSource {
    int block;
    torch::Tensor tensor;
  };
  std::map<std::string, SkipSource> given;
  torch::Tensor main = x;
  for (int b = 0; const Block& block : blocks) {
    Alone alone{block, main, b == 0, {}};
    for (const std::string& name : block.takes) {
      const SkipSource& from = given.at(name);
      alone.taken.push_back(from.tensor);
      costs.skips.push_back({name, from.block, b, from.tensor.nbytes()});
    }
    NetworkBlock cost;
    cost.name = block.name;
    cost.times = times_of(alone, repeats);
    cost.parameter_bytes = parameter_count(block.parameters) * sizeof(float);
    const std::uint64_t before = live_tensor_bytes();
    Alone::Forward made = alone.forward();
    cost.activation_bytes = live_tensor_bytes() - before;
    main = made.outputs[0].detach();
    cost.output_bytes = main.nbytes();
    for (std::size_t g = 0; g < block.gives.size(); ++g)
      given[block.gives[g]] = {b, made.outputs[g + 1].detach()};
    costs.blocks.push_back(std::move(cost));
    ++b;
  }
  return costs;
}

}  // namespace lockstep
