#include "replica/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "replica/networks.h"

namespace lockstep {
namespace {

using namespace torch::nn;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const std::vector<Block>& blocks) {
  std::vector<std::string> names;
  for (const Block& block : blocks) names.push_back(block.name);
  return names;
}
std::vector<std::string> parameters_of(const Block& block) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : block.parameters) names.push_back(parameter.name);
  return names;
}

TEST(Blocks, OfASequentialBeginWithTheChildrenThatHoldSomething) {
  const auto network = network_of(Sequential(Flatten(), Linear(36, 7), BatchNorm1d(7),
                                             ReLU(ReLUOptions(true)), Dropout(0.5), Linear(7, 5)));
  const std::vector<Block> blocks = network->blocks();
  EXPECT_THAT(names_of(blocks), ElementsAre("1", "2", "5"));
  EXPECT_THAT(parameters_of(blocks[1]), ElementsAre("2.weight", "2.bias"));
  ASSERT_EQ(blocks[1].buffers.size(), 2u) << "not the count of batches, which is no fp32";
  EXPECT_EQ(blocks[1].buffers[0].name, "2.running_mean");
  const torch::Tensor x = Batch().x;
  torch::manual_seed(3);
  const torch::Tensor whole = network->forward(x);
  torch::manual_seed(3);
  EXPECT_TRUE(same_bits(run_blocks(blocks, x), whole));
}

TEST(Blocks, OfASequentialThatSharesAParameterAreNone) {
  const Linear twice(7, 7);
  EXPECT_THAT(network_of(Sequential(twice, ReLU(), twice))->blocks(), IsEmpty());
}

TEST(Blocks, OfAnyOtherModuleAreNone) {
  EXPECT_THAT(network_of(std::make_shared<ConvNet>())->blocks(), IsEmpty());
}

TEST(Blocks, SeeTheParametersWhereTheyComeToLie) {
  Flat flat(network_of(Sequential(Linear(4, 3), Linear(3, 2))));
  const std::vector<Block> blocks = flat.network->blocks();
  EXPECT_EQ(blocks[1].parameters[0].tensor.data_ptr<float>(), flat.weights.floats().data() + 15);
  run_blocks(blocks, torch::ones({2, 4})).sum().backward();
  EXPECT_EQ(flat.gradients.floats().back(), 2);
}

// Two layers, the second of which takes what the first gives.
struct Skipping {
  std::shared_ptr<Module> net = std::make_shared<Module>();
  Linear a = net->register_module("a", Linear(3, 3)), b = net->register_module("b", Linear(3, 3));
  Block first = block_of("first", {a.ptr()}, {}, {"skip"},
                         [this](const torch::Tensor& x, auto) -> Block::Output {
                           const torch::Tensor y = a(x);
                           return {torch::relu(y), {y}};
                         });
  Block second = block_of("second", {b.ptr()}, {"skip"}, {},
                          [this](const torch::Tensor& x, auto taken) -> Block::Output {
                            return {b(x) + taken[0], {}};
                          });
};

TEST(Blocks, HandOnWhatIsTakenByName) {
  Skipping made;
  const auto network = network_of_blocks(made.net, {made.first, made.second});
  const torch::Tensor x = torch::randn({2, 3}), y = made.a(x);
  EXPECT_TRUE(same_bits(network->forward(x), made.b(torch::relu(y)) + y));
  EXPECT_THAT(parameters_of(network->blocks()[1]), ElementsAre("b.weight", "b.bias"));
}

TEST(Blocks, ThatDoNotMakeUpTheNetworkAreRefused) {
  Skipping made;
  const auto refusal = [&](std::vector<Block> blocks, const char* why) {
    EXPECT_THAT([&] { network_of_blocks(made.net, blocks); },
                ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  refusal({made.first}, "none of them holds 'b.weight'");
  refusal({made.second, made.first}, "'second' takes 'skip', which none before it gives");
  Block again = made.first;
  again.name = "again";
  refusal({made.first, again, made.second}, "'first' and 'again' both hold a 'weight'");
  again.parameters.clear();
  refusal({made.first, again, made.second}, "'first' and 'again' both give 'skip'");
}

}  // namespace
}  // namespace lockstep
