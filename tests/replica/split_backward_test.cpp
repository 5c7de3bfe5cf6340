#include "replica/split_backward.h"

#include "replica/backward_hooks.h"
#include "replica/networks.h"

namespace lockstep {
namespace {

torch::Tensor gradient_of(const torch::Tensor& t) {
  return t.grad().defined() ? t.grad().clone() : torch::zeros_like(t);
}

// What joint backward and split backward of the same forward leave.
struct Gradients {
  Tensors inputs;
  std::vector<torch::Tensor> after_inputs, after_weights;  // of the parameters
};

template <class Forward>
Gradients joint(const Network& network, const torch::Tensor& x, Forward&& forward) {
  for (const auto& p : network.parameters()) p.tensor.mutable_grad() = torch::Tensor();
  const torch::Tensor leaf = leaf_of(x);
  const torch::Tensor y = forward(leaf);
  Gradients found{backward({y}, {torch::ones_like(y) * 0.5}, {leaf}), {}, {}};
  for (const auto& p : network.parameters()) found.after_weights.push_back(gradient_of(p.tensor));
  return found;
}

template <class Forward>
Gradients split(const Network& network, const torch::Tensor& x, Forward&& forward) {
  for (const auto& p : network.parameters()) p.tensor.mutable_grad() = torch::Tensor();
  SplitBackward two;
  const torch::Tensor leaf = leaf_of(x);
  Gradients found;
  {
    const torch::Tensor y = forward(leaf);
    found.inputs = two.inputs({y}, {torch::ones_like(y) * 0.5}, {leaf});
  }
  for (const auto& p : network.parameters()) found.after_inputs.push_back(gradient_of(p.tensor));
  two.weights();
  for (const auto& p : network.parameters()) found.after_weights.push_back(gradient_of(p.tensor));
  return found;
}

void expect_same(const Network& network, const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.inputs.size(), 1u);
  EXPECT_TRUE(torch::allclose(found.inputs[0], expected.inputs[0], 1e-5, 1e-7));
  for (std::size_t i = 0; i < expected.after_weights.size(); ++i)
    EXPECT_TRUE(torch::allclose(found.after_weights[i], expected.after_weights[i], 1e-5, 1e-7))
        << network.parameters()[i].name;
}

TEST(SplitBackward, LeavesLayersForTheSecondPassAndNormalisationsInTheFirst) {
  const auto module = std::make_shared<ConvNet>();
  const auto network = network_of(module);
  const torch::Tensor x = torch::randn({8, 1, 6, 6});
  const auto forward = [&](const torch::Tensor& t) { return network->forward(t).sin(); };
  const Gradients expected = joint(*network, x, forward);
  const Gradients found = split(*network, x, forward);
  expect_same(*network, found, expected);
  for (std::size_t i = 0; i < found.after_inputs.size(); ++i) {
    const std::string name = network->parameters()[i].name;
    const bool waits = name.starts_with("conv") || name.starts_with("dense");
    EXPECT_EQ(found.after_inputs[i].count_nonzero().item<std::int64_t>() == 0, waits) << name;
  }
}

// A matrix that is used in two places is not final before both have added to it.
TEST(SplitBackward, TakesSharedParametersWithTheInputs) {
  const auto network = network_of(std::make_shared<TiedNet>());
  const torch::Tensor x = torch::randn({8, 1, 6, 6});
  const auto forward = [&](const torch::Tensor& t) { return network->forward(t).sin(); };
  expect_same(*network, split(*network, x, forward), joint(*network, x, forward));
}

TEST(SplitBackward, AddsToWhatIsThere) {
  const auto network = network_of(std::make_shared<ConvNet>());
  const torch::Tensor x = torch::randn({8, 1, 6, 6});
  const auto forward = [&](const torch::Tensor& t) { return network->forward(t).sin(); };
  const Gradients once = joint(*network, x, forward);
  SplitBackward two;
  const torch::Tensor leaf = leaf_of(x), y = forward(leaf);
  two.inputs({y}, {torch::ones_like(y) * 0.5}, {leaf});
  two.weights();
  for (std::size_t i = 0; const auto& p : network->parameters())
    EXPECT_TRUE(torch::allclose(p.tensor.grad(), 2 * once.after_weights[i++], 1e-5, 1e-7));
}

// Hooks fire in the second pass, where the gradients are final.
TEST(SplitBackward, TellsHooksOfTheSecondPass) {
  Flat flat(network_of(std::make_shared<ConvNet>()));
  std::vector<Slice> told;
  BackwardHooks hooks(flat.model, [&](Slice part) { told.push_back(part); });
  SplitBackward two;
  const torch::Tensor leaf = leaf_of(torch::randn({8, 1, 6, 6}));
  const torch::Tensor y = flat.network->forward(leaf);
  two.inputs({y}, {torch::ones_like(y)}, {leaf});
  EXPECT_TRUE(told.empty());
  two.weights();
  EXPECT_EQ(told.size(), 3u) << "of the convolution, and of the dense layer's weights and bias";
  hooks.flush();
  EXPECT_EQ(told.size(), 4u) << "of batch norm, as one";
}

}  // namespace
}  // namespace lockstep
