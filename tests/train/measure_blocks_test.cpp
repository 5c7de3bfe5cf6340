#include "train/measure_blocks.h"

#include "train/staged_networks.h"

namespace lockstep::testing {
namespace {

TEST(MeasureBlocks, CountsWhatEachBlockKeepsAndHandsOn) {
  const auto network = drawn([] { return tiny_unet({.norm = true}); });
  constexpr std::uint64_t kSamples = 32, kSlack = 4096;
  const NetworkCosts costs =
      measure_blocks(*network, torch::randn({kSamples, kChannels, kPixels, kPixels}));
  const std::uint64_t pixels = 4 * kSamples * kPixels * kPixels;  // bytes of one channel
  ASSERT_EQ(costs.blocks.size(), 6u);
  EXPECT_EQ(costs.input_bytes, kChannels * pixels);

  const NetworkBlock& first = costs.blocks[0];
  EXPECT_EQ(first.name, "down0");
  EXPECT_EQ(first.parameter_bytes, 4u * (2 * 4 * 9 + 4 + 4));
  EXPECT_EQ(first.output_bytes, 4 * pixels / 4);
  // Of four channels: what the convolution and the rectifier make, and a quarter of that. Nobody
  // needs what batch norm makes again.
  EXPECT_NEAR(first.activation_bytes, 4 * (2 * pixels + pixels / 4), kSlack);

  ASSERT_EQ(costs.skips.size(), 3u);
  EXPECT_EQ(costs.skips[0].name, "coarse");
  EXPECT_EQ(costs.skips[0].from, 1);
  EXPECT_EQ(costs.skips[0].to, 3);
  EXPECT_EQ(costs.skips[0].bytes, 6 * pixels / 4);
  EXPECT_EQ(costs.skips[2].name, "fine");
  EXPECT_EQ(costs.skips[2].from, 0);
  EXPECT_EQ(costs.skips[2].to, 5);
  EXPECT_EQ(costs.skips[2].bytes, 4 * pixels);
}

TEST(MeasureBlocks, TimesEveryPassOfEveryBlock) {
  torch::set_num_threads(1);
  const auto network = drawn([] { return chain(4); });
  const NetworkCosts costs =
      measure_blocks(*network, torch::randn({256, kChannels, kPixels, kPixels}), 5);
  for (const NetworkBlock& block : costs.blocks) {
    EXPECT_GT(block.times.forward_s, 0) << block.name;
    EXPECT_GT(block.times.backward_s(), 0) << block.name;
    EXPECT_LT(block.times.total_s(), 1) << block.name;
  }
  // How the time is divided is no matter of a test: a busy machine divides it anew each time.
  EXPECT_GT(costs.blocks[1].times.backward_inputs_s, 0);
}

TEST(MeasureBlocks, LeavesTheNetworkAsItWas) {
  const auto network = drawn([] { return chain(3, {.norm = true}); });
  const Network::Numbers before = network->numbers();
  for (const auto& p : network->parameters()) p.tensor.mutable_grad() = torch::ones_like(p.tensor);
  measure_blocks(*network, torch::randn({4, kChannels, kPixels, kPixels}), 1);
  EXPECT_EQ(network->numbers().parameters, before.parameters);
  EXPECT_EQ(network->numbers().buffers, before.buffers);
  for (const auto& p : network->parameters())
    EXPECT_TRUE(p.tensor.grad().eq(1).all().item<bool>()) << p.name;
}

TEST(MeasureBlocks, RefusesANetworkWithoutBlocks) {
  const auto network = network_of(torch::nn::Linear(2, 2));
  EXPECT_THROW(measure_blocks(*network, torch::randn({4, 2})), UsageError);
}

}  // namespace
}  // namespace lockstep::testing
