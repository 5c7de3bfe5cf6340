#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "folder.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAreArray;

const ModelInput kMnist{{1, 28, 28}, 10};
const ModelInput kCifar{{3, 32, 32}, 10};
const ModelInput kImageNet{{3, 224, 224}, 1000};

std::size_t count_of(std::string_view spec, const ModelInput& input) {
  return parameter_count(*make_model(spec, input));
}

TEST(Models, HaveTheParametersTheyAreKnownFor) {
  EXPECT_EQ(count_of("mnist-cnn", kMnist), 1'199'882u);
  EXPECT_EQ(count_of("lenet5", kMnist), 61'706u);
  EXPECT_EQ(count_of("resnet20", kCifar), 269'722u);
  EXPECT_EQ(count_of("resnet32", kCifar), 464'154u);
  EXPECT_EQ(count_of("resnet110v2", kCifar), 1'727'962u);
  EXPECT_EQ(count_of("resnet50", kImageNet), 25'557'032u);
  EXPECT_EQ(count_of("vgg16", kImageNet), 138'357'544u);
}

TEST(Models, MlpHasTheWidthAndDepthAskedFor) {
  EXPECT_EQ(count_of("mlp:width=100,depth=1", kMnist), 784u * 100 + 100 + 100 * 10 + 10);
  EXPECT_EQ(count_of("mlp:width=4,depth=3", {{5}, 2}), 5u * 4 + 4 + 2 * (4 * 4 + 4) + 4 * 2 + 2);
  EXPECT_EQ(count_of("mlp:depth=0", {{2, 3}, 2}), 6u * 2 + 2);
}

// Each network, on images it was not made for, learns one batch.
TEST(Models, AdaptToTheSamplesAndLearn) {
  torch::manual_seed(1);
  const ModelInput input{{2, 36, 32}, 7};
  const torch::Tensor x = torch::rand({4, 2, 36, 32}), y = torch::arange(4);
  for (const ModelRow& row : models()) {
    if (row.name == "vgg16" || row.name == "resnet110v2") continue;  // slow: below
    const auto network = make_model(row.name, input);
    std::vector<torch::Tensor> parameters;
    for (const auto& p : network->parameters()) parameters.push_back(p.tensor);
    torch::optim::SGD rule(parameters, 0.001);
    double first = 0, last = 0;
    for (int step = 0; step < 6; ++step) {
      rule.zero_grad();
      const auto output = network->forward(x);
      ASSERT_EQ(output.sizes(), (at::IntArrayRef{4, 7})) << row.name;
      const auto loss = torch::nn::functional::cross_entropy(output, y);
      loss.backward();
      rule.step();
      (step == 0 ? first : last) = loss.item<double>();
    }
    EXPECT_LT(last, first) << row.name;
  }
}

TEST(Models, DeepAndWideOnesGiveOneScoreAClass) {
  const torch::NoGradGuard no_grad;
  const ModelInput input{{3, 32, 32}, 7};
  for (const char* name : {"vgg16", "resnet110v2"})
    EXPECT_EQ(make_model(name, input)->forward(torch::rand({2, 3, 32, 32})).sizes(),
              (at::IntArrayRef{2, 7}))
        << name;
}

// What every network promises that says its blocks, and every one here does.
class ModelBlocks : public ::testing::TestWithParam<std::string> {
 protected:
  const ModelInput input_{{3, 32, 32}, 7};
  const std::unique_ptr<Network> network_ = make_model(GetParam(), input_);
  const std::vector<Block> blocks_ = network_->blocks();
};

TEST_P(ModelBlocks, ComputeWhatTheNetworkDoes) {
  const torch::Tensor x = torch::rand({2, 3, 32, 32});
  ASSERT_GE(blocks_.size(), 2u);
  for (const bool training : {true, false}) {
    network_->train(training);
    torch::manual_seed(7);
    const torch::Tensor whole = network_->forward(x);
    torch::manual_seed(7);
    EXPECT_TRUE(torch::equal(run_blocks(blocks_, x), whole)) << (training ? "training" : "in use");
  }
}

TEST_P(ModelBlocks, HoldEachParameterAndBufferOnce) {
  const auto names_in = [](const std::vector<NamedTensor>& tensors) {
    std::vector<std::string> names;
    for (const NamedTensor& t : tensors) names.push_back(t.name);
    return names;
  };
  const std::vector<std::string> order = names_in(network_->parameters());
  std::vector<std::string> parameters, buffers;
  for (const Block& block : blocks_) {
    EXPECT_FALSE(block.parameters.empty()) << block.name << " could be a part of another block";
    const auto own = names_in(block.parameters);
    EXPECT_TRUE(std::ranges::is_sorted(own, {}, [&](const std::string& name) {
      return std::ranges::find(order, name);
    })) << block.name;
    parameters.insert(parameters.end(), own.begin(), own.end());
    const auto statistics = names_in(block.buffers);
    buffers.insert(buffers.end(), statistics.begin(), statistics.end());
  }
  EXPECT_THAT(parameters, UnorderedElementsAreArray(order));
  EXPECT_THAT(buffers, UnorderedElementsAreArray(names_in(network_->buffers())));
}

TEST_P(ModelBlocks, TakeWhatWasGivenAndWriteIntoNoneOfIt) {
  std::map<std::string, torch::Tensor> given;
  torch::Tensor x = torch::rand({2, 3, 32, 32});
  for (const Block& block : blocks_) {
    std::vector<torch::Tensor> handed{x.detach().clone().requires_grad_()};
    for (const std::string& name : block.takes) {
      ASSERT_TRUE(given.contains(name)) << block.name << " takes " << name;
      handed.push_back(given[name].detach().clone().requires_grad_());
    }
    const Block::Output output = block.forward(handed[0], std::span(handed).subspan(1));
    for (const torch::Tensor& tensor : handed) EXPECT_EQ(tensor._version(), 0u) << block.name;
    ASSERT_EQ(output.given.size(), block.gives.size()) << block.name;
    for (std::size_t i = 0; i < block.gives.size(); ++i)
      EXPECT_TRUE(given.emplace(block.gives[i], output.given[i]).second) << block.gives[i];
    x = output.main;
  }
}

std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  for (const ModelRow& row : models()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(, ModelBlocks, ::testing::ValuesIn(names_of_models()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Models, ZeroGammaStartsBlocksAsIdentities) {
  const auto network = make_model("resnet20:zero_gamma=on", kCifar);
  int zero = 0;
  for (const auto& [name, tensor] : network->parameters())
    zero += name.ends_with("bn2.weight") && tensor.abs().max().item<float>() == 0;
  EXPECT_EQ(zero, 9);
}

TEST(Models, UnknownNamesAndKeysListTheValidOnes) {
  EXPECT_THAT([] { make_model("mnist-cn", kMnist); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'mnist-cnn'?")));
  EXPECT_THAT([] { make_model("mlp:widht=3", kMnist); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'width'?")));
}

TEST(Models, SamplesThatDoNotFitAreRefused) {
  EXPECT_THAT(
      [] {
        make_model("mnist-cnn", {{784}, 10});
      },
      ThrowsMessage<UsageError>(HasSubstr("not 784")));
  EXPECT_THAT([] { make_model("vgg16", kMnist); },
              ThrowsMessage<UsageError>(HasSubstr("at least 32 x 32, not 1 x 28 x 28")));
  EXPECT_THAT([] { make_model("mnist-cnn:dropout1=1", kMnist); },
              ThrowsMessage<UsageError>(HasSubstr("dropout1 of 'mnist-cnn' is 1")));
}

TEST(Models, AFileOfTorchScriptIsAModelToo) {
  const testing::Folder folder;
  const std::string path = folder / "model.pt";
  torch::jit::Module module("Net");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("w", torch::randn({784, 10}).set_requires_grad(true), false);
  module.define("def forward(self, x):\n  return x.flatten(1).matmul(self.w)\n");
  module.save(path);
  EXPECT_EQ(count_of(path, kMnist), 7840u);
  EXPECT_THAT([&] { make_model(path, kCifar); },
              ThrowsMessage<UsageError>(HasSubstr("cannot take a batch of shape 1 x 3 x 32 x 32")));
  EXPECT_THAT(
      [&] {
        make_model(path, {{1, 28, 28}, 11});
      },
      ThrowsMessage<UsageError>(HasSubstr("gives 10 for each sample")));
}

TEST(Models, AFileThatReturnsSeveralTensorsIsRefusedForThat) {
  const testing::Folder folder;
  const std::string path = folder / "model.pt";
  torch::jit::Module module("Net");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("w", torch::randn({784, 10}).set_requires_grad(true), false);
  module.define("def forward(self, x):\n  return (x.flatten(1).matmul(self.w), x)\n");
  module.save(path);
  EXPECT_THAT([&] { make_model(path, kMnist); },
              ThrowsMessage<UsageError>(HasSubstr("returns a Tuple: let it return one tensor")));
}

}  // namespace
}  // namespace lockstep
