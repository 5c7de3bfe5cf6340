#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/names.h"
#include "folder.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAreArray;

const ModelInput kMnist{{1, 28, 28}, 10};
const ModelInput kCifar{{3, 32, 32}, 10};
const ModelInput kImageNet{{3, 224, 224}, 1000};

std::size_t count_of(std::string_view spec, const ModelInput& input) {
  return parameter_count(*make_model(spec, input));
}

constexpr std::string_view kSlow[] = {"vgg16", "resnet110", "resnet110v2", "resnet1001v2"};

// What the model is for: images of that shape with 7 classes for each or for each pixel, or tokens.
ModelInput input_for(const ModelRow& row, const std::vector<std::int64_t>& image) {
  if (row.labelled == Labelled::sample) return {image, 7};
  if (row.labelled == Labelled::pixel) return {image, 7, {image[1], image[2]}};
  return {{12}, 7, {12}, true};
}
std::vector<std::int64_t> labels_of(const ModelInput& input, std::int64_t count) {
  std::vector<std::int64_t> sizes = input.label_shape;
  sizes.insert(sizes.begin(), count);
  return sizes;
}
torch::Tensor samples(const ModelInput& input, std::int64_t count) {
  std::vector<std::int64_t> sizes = input.shape;
  sizes.insert(sizes.begin(), count);
  return input.tokens ? torch::randint(input.classes, sizes, torch::kInt64) : torch::rand(sizes);
}

TEST(Models, HaveTheParametersTheyAreKnownFor) {
  EXPECT_EQ(count_of("mnist-cnn", kMnist), 1'199'882u);
  EXPECT_EQ(count_of("lenet5", kMnist), 61'706u);
  EXPECT_EQ(count_of("resnet20", kCifar), 269'722u);
  EXPECT_EQ(count_of("resnet32", kCifar), 464'154u);
  EXPECT_EQ(count_of("resnet110", kCifar), 1'727'962u);
  EXPECT_EQ(count_of("resnet110v2", kCifar), 3'291'610u);
  EXPECT_EQ(count_of("resnet1001v2", kCifar), 30'251'290u);
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
  for (const ModelRow& row : models()) {
    if (std::ranges::find(kSlow, row.name) != std::end(kSlow)) continue;  // below
    const ModelInput input = input_for(row, {2, 48, 32});
    const torch::Tensor x = samples(input, 4), y = torch::randint(7, labels_of(input, 4));
    const auto network = make_model(row.name, input);
    std::vector<torch::Tensor> parameters;
    for (const auto& p : network->parameters()) parameters.push_back(p.tensor);
    torch::optim::SGD rule(parameters, 0.001);
    double first = 0, last = 0;
    for (int step = 0; step < 6; ++step) {
      rule.zero_grad();
      const auto output = network->forward(x);
      std::vector<std::int64_t> due = labels_of(input, 4);
      due.insert(due.begin() + 1, 7);
      ASSERT_EQ(output.sizes(), at::IntArrayRef(due)) << row.name;
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
  for (const std::string_view name : kSlow)
    EXPECT_EQ(make_model(name, input)->forward(torch::rand({2, 3, 32, 32})).sizes(),
              (at::IntArrayRef{2, 7}))
        << name;
}

// What every network promises that says its blocks, and every one here does.
class ModelBlocks : public ::testing::TestWithParam<std::string> {
 protected:
  const ModelInput input_ = input_for(row_named("model", GetParam(), models()), {3, 32, 32});
  const std::unique_ptr<Network> network_ = make_model(GetParam(), input_);
  const std::vector<Block> blocks_ = network_->blocks();
};

TEST_P(ModelBlocks, ComputeWhatTheNetworkDoes) {
  const torch::Tensor x = samples(input_, 2);
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
  torch::Tensor x = samples(input_, 2);
  const auto received = [](const torch::Tensor& t) {
    return t.detach().clone().requires_grad_(t.is_floating_point());
  };
  for (const Block& block : blocks_) {
    std::vector<torch::Tensor> handed{received(x)};
    for (const std::string& name : block.takes) {
      ASSERT_TRUE(given.contains(name)) << block.name << " takes " << name;
      handed.push_back(received(given[name]));
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

TEST(Models, OnesForOtherLabelsAreRefused) {
  EXPECT_THAT([] { make_model("unet", kCifar); },
              ThrowsMessage<UsageError>(
                  HasSubstr("'unet' gives a class for each pixel, and the data has one for each "
                            "sample: take mnist-cnn, mlp, lenet5")));
  EXPECT_THAT(
      [] {
        make_model("mlp", {{64}, 20, {64}, true});
      },
      ThrowsMessage<UsageError>(HasSubstr("has one for each token: take gpt-mini")));
}

TEST(Models, UNetsSkipsGoFromEachLevelDownToTheOneUp) {
  const auto network = make_model("unet:depth=2,width=4", {{1, 16, 16}, 3, {16, 16}});
  std::vector<std::string> lines;
  for (const Block& block : network->blocks())
    lines.push_back(fmt::format("{} takes {} gives {}", block.name, fmt::join(block.takes, ""),
                                fmt::join(block.gives, "")));
  EXPECT_THAT(lines,
              ElementsAre("down0_1 takes  gives ", "down0_2 takes  gives level0",
                          "down1_1 takes  gives ", "down1_2 takes  gives level1",
                          "bottom_1 takes  gives ", "bottom_2 takes  gives ", "up1 takes  gives ",
                          "up1_1 takes level1 gives ", "up1_2 takes  gives ", "up0 takes  gives ",
                          "up0_1 takes level0 gives ", "up0_2 takes  gives ", "out takes  gives "));
}

TEST(Models, UNetRefusesImagesThatItCannotHalve) {
  EXPECT_THAT(
      [] {
        make_model("unet:depth=3", {{1, 24, 20}, 3, {24, 20}});
      },
      ThrowsMessage<UsageError>(HasSubstr("multiples of 8, not 24 x 20")));
}

// What a token's scores depend on.
TEST(Models, GptMiniDoesNotLookAhead) {
  const torch::NoGradGuard no_grad;
  const auto network = make_model("gpt-mini:width=16", {{8}, 5, {8}, true});
  network->train(false);
  torch::Tensor x = torch::zeros({1, 8}, torch::kInt64);
  const torch::Tensor before = network->forward(x).clone();
  x[0][5] = 3;
  const torch::Tensor changed = (network->forward(x) != before).any(1)[0];
  for (int token = 0; token < 8; ++token)
    EXPECT_EQ(changed[token].item<bool>(), token >= 5) << token;
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
