#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/rng.h"
#include "folder.h"
#include "replica/blocks.h"
#include "replica/network.h"
#include "replica/networks.h"
#include "replica/torch_replica.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator(in), {}};
}

// A TorchScript file of a network with batch norm, dropout and a matrix in two places.
class ScriptNetworkTest : public ::testing::Test {
 protected:
  ScriptNetworkTest() {
    torch::jit::Module module("Net");
    module.register_attribute("training", c10::BoolType::get(), true);
    module.register_parameter("conv", 0.3 * torch::randn({3, 1, 3, 3}), false);
    module.register_parameter("scale", torch::ones(3), false);
    module.register_parameter("shift", torch::zeros(3), false);
    module.register_buffer("mean", torch::zeros(3));
    module.register_buffer("variance", torch::ones(3));
    const torch::Tensor tied = torch::randn({48, 48}).mul_(0.1).set_requires_grad(true);
    module.register_parameter("tied", tied, false);
    module.register_parameter("same", tied, false);
    module.register_parameter("out", 0.1 * torch::randn({5, 48}), false);
    module.define(R"(
      def forward(self, x):
        x = torch.conv2d(x, self.conv)
        x = torch.batch_norm(x, self.scale, self.shift, self.mean, self.variance,
                             self.training, 0.1, 1e-5, False)
        x = torch.relu(x).flatten(1).matmul(self.tied)
        x = torch.dropout(x, 0.25, self.training).matmul(self.same)
        return x.matmul(self.out.t())
    )");
    for (const auto& p : module.named_parameters()) p.value.set_requires_grad(true);
    module.save(given_);
  }

  testing::Folder folder_;
  std::string given_ = folder_ / "given.pt";
  std::string trained_ = folder_ / "trained.pt";
};

TEST_F(ScriptNetworkTest, TrainsFlatWithTheBitsOfTheUntouchedModule) {
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  torch::jit::Module plain = torch::jit::load(given_);
  std::vector<torch::Tensor> parameters;
  for (const auto& p : plain.named_parameters())
    if (p.name != "same") parameters.push_back(p.value);
  torch::optim::SGD rule(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  auto network = load_script(given_);
  const std::size_t count = parameter_count(*network);
  EXPECT_EQ(count, 27u + 3 + 3 + 48 * 48 + 5 * 48) << "the matrix in two places counts once";
  ZeroPages weights(4 * count), gradients(4 * count);
  TorchReplica replica({.network = std::move(network),
                        .weights = weights.bytes(),
                        .gradients = gradients.bytes(),
                        .optimiser = optimiser_options("sgd:lr=0.05,momentum=0.9"),
                        .schedule = Schedule("constant", {.base_lr = 0.05}),
                        .seed = 1});
  RandomStream same(1, 0, purpose_of("network"));
  for (std::uint64_t step = 0; step < 8; ++step) {
    const Batch batch;
    rule.zero_grad();
    {
      const RandomStream::Installed installed(same);
      cross_entropy(plain.forward({batch.x}).toTensor(), batch.y).backward();
    }
    rule.step();
    replica.backward(batch.x, batch.y, cross_entropy);
    replica.apply_gradients(step);
  }
  for (const auto& [name, tensor] : replica.network().parameters()) {
    EXPECT_TRUE(same_bits(tensor, plain.attr(name).toTensor())) << name;
    EXPECT_GE(tensor.grad().data_ptr<float>(), gradients.floats().data());
    EXPECT_LT(tensor.grad().data_ptr<float>(), gradients.floats().data() + count);
  }
}

TEST_F(ScriptNetworkTest, BitsDoNotDependOnHowOftenItWasCalled) {
  Flat flat(load_script(given_));
  const Batch batch;
  const auto statistics = flat.model.statistics();
  std::vector<float> first;
  for (int call = 0; call < 4; ++call) {
    RandomStream same(1, 0, 0);
    const RandomStream::Installed installed(same);
    flat.model.set_statistics(statistics);
    std::ranges::fill(flat.gradients.floats(), 0.0f);
    cross_entropy(flat.network->forward(batch.x), batch.y).backward();
    const std::vector<float> now(flat.gradients.floats().begin(), flat.gradients.floats().end());
    if (call == 0) first = now;
    EXPECT_EQ(now, first) << "call " << call;
  }
}

TEST_F(ScriptNetworkTest, SavesTheTrainedCopyAndLeavesTheGivenFileAlone) {
  const std::string before = contents(given_);
  Flat flat(load_script(given_));
  std::ranges::transform(flat.weights.floats(), flat.weights.floats().begin(),
                         [](float w) { return w * 1.5f; });
  flat.network->forward(Batch().x);  // moves the statistics
  flat.network->save(trained_);
  EXPECT_EQ(contents(given_), before);
  EXPECT_LT(std::filesystem::file_size(trained_), 2 * before.size()) << "each parameter alone";
  expect_read_back(flat, trained_);
  flat.network->train(false);
  torch::jit::Module loaded = torch::jit::load(trained_);
  loaded.eval();
  const torch::Tensor x = Batch().x;
  EXPECT_TRUE(same_bits(loaded.forward({x}).toTensor(), flat.network->forward(x)));
}

TEST_F(ScriptNetworkTest, TheGivenFileIsNeverSavedOver) {
  const auto network = load_script(given_);
  const std::string before = contents(given_);
  EXPECT_THAT([&] { network->save(folder_ / ".." / folder_.path().filename() / "given.pt"); },
              ThrowsMessage<UsageError>(HasSubstr("under another name")));
  EXPECT_EQ(contents(given_), before);
}

// A module that calls its children in turn. `last`: what it does with the last one's output.
std::string save_chain(const std::string& path, const std::string& last = "x") {
  const auto layer = [](const char* name, std::int64_t in, std::int64_t out, const char* forward) {
    torch::jit::Module made(name);
    made.register_attribute("training", c10::BoolType::get(), true);
    if (in > 0)
      made.register_parameter("w", torch::randn({in, out}).set_requires_grad(true), false);
    made.define(std::string("def forward(self, x):\n  return ") + forward + "\n");
    return made;
  };
  torch::jit::Module inner("Inner"), outer("Outer");
  inner.register_module("first", layer("First", 36, 7, "x.matmul(self.w)"));
  inner.register_module("drop", layer("Drop", 0, 0, "torch.dropout_(x, 0.5, self.training)"));
  inner.define("def forward(self, x):\n  return self.drop.forward(self.first.forward(x))\n");
  outer.register_module("flat", layer("Flat", 0, 0, "x.flatten(1)"));
  outer.register_module("out", layer("Out", 7, 5, "x.matmul(self.w)"));
  outer.register_module("inner", inner);
  outer.define("def forward(self, x):\n  x = self.out.forward(self.inner.forward(" +
               std::string("self.flat.forward(x)))\n  return ") + last + "\n");
  outer.save(path);
  return path;
}

TEST_F(ScriptNetworkTest, AChainOfChildrenIsAListOfBlocks) {
  const auto network = load_script(save_chain(folder_ / "chain.pt"));
  const std::vector<Block> blocks = network->blocks();
  ASSERT_EQ(blocks.size(), 2u) << "what holds nothing belongs to its neighbour";
  EXPECT_EQ(blocks[0].name, "inner.first");
  ASSERT_EQ(blocks[0].parameters.size(), 1u);
  EXPECT_EQ(blocks[0].parameters[0].name, "inner.first.w");
  EXPECT_EQ(blocks[1].name, "out");
  const Batch batch;
  for (const bool training : {true, false}) {
    network->train(training);
    torch::manual_seed(5);
    const torch::Tensor whole = network->forward(batch.x);
    torch::manual_seed(5);
    EXPECT_TRUE(same_bits(run_blocks(blocks, batch.x), whole));
  }
}

// Also where no sample of one's own would show the difference.
TEST_F(ScriptNetworkTest, WhatDoesMoreThanCallItsChildrenIsNoChain) {
  for (const char* last : {"torch.relu(x)", "torch.clamp(x, -1e6, 1e6)", "x + 0"})
    EXPECT_TRUE(load_script(save_chain(folder_ / "other.pt", last))->blocks().empty()) << last;
  EXPECT_TRUE(load_script(given_)->blocks().empty());
}

TEST_F(ScriptNetworkTest, OtherFilesAreRefusedInOneSentence) {
  std::ofstream(trained_) << "PK\x03\x04 but no archive";
  EXPECT_THAT([&] { load_script(trained_); },
              ThrowsMessage<UsageError>(HasSubstr("is not a TorchScript file")));
  EXPECT_THAT([&] { load_script(folder_ / "none.pt"); },
              ThrowsMessage<UsageError>(HasSubstr("no model file")));
}

}  // namespace
}  // namespace lockstep
