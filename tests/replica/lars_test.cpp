// LibTorch has no LARS, so this one is held to its formula.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "replica/networks.h"
#include "replica/optimiser.h"

namespace lockstep {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

constexpr Slice kMatrix{0, 12}, kBias{12, 3};

struct Layer : Flat {
  Layer() : Flat(network_of(torch::nn::Linear(4, 3))) {
    for (std::size_t i = 0; i < 15; ++i) {
      weights.floats()[i] = 0.1f * static_cast<float>(i + 1);
      gradients.floats()[i] = std::cos(static_cast<float>(i));
    }
  }
  std::vector<float> step(const std::string& spec, Slice part = {0, 15}) {
    make_optimiser(optimiser_options(spec), model)->step(0.5, 0, part);
    return {weights.floats().begin(), weights.floats().end()};
  }
};

double norm(std::span<const float> v) {
  double sum = 0;
  for (float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

TEST(Lars, FollowsItsFormulaAndSkipsBiases) {
  Layer layer;
  const std::vector<float> w(layer.weights.floats().begin(), layer.weights.floats().end());
  const std::vector<float> g(layer.gradients.floats().begin(), layer.gradients.floats().end());
  const double wn = norm({w.data(), 12}), gn = norm({g.data(), 12});
  const double lambda = 0.01 * wn / (gn + 0.1 * wn);
  std::vector<float> expected(15);
  for (std::size_t i = 0; i < 15; ++i)
    expected[i] =
        static_cast<float>(i < 12 ? w[i] - 0.5 * lambda * (g[i] + 0.1 * w[i]) : w[i] - 0.5 * g[i]);
  EXPECT_THAT(layer.step("lars:weight_decay=0.1,eta=0.01"), Pointwise(FloatNear(1e-6f), expected));
}

TEST(Lars, WithoutDecayTheGradientsScaleDoesNotMatter) {
  Layer once, scaled;
  for (float& g : scaled.gradients.floats().first(12)) g *= 1024;
  EXPECT_THAT(scaled.step("lars:weight_decay=0", kMatrix),
              Pointwise(FloatNear(1e-6f), once.step("lars:weight_decay=0", kMatrix)));
}

TEST(Lars, AZeroLayerMovesAtTheFullRate) {
  Layer layer;
  std::ranges::fill(layer.weights.floats().first(12), 0.0f);
  const float g = layer.gradients.floats()[5];
  EXPECT_FLOAT_EQ(layer.step("lars:weight_decay=0")[5], -0.5f * g);
}

TEST(Lars, WholeLayersInAnyOrderGiveTheSameBits) {
  Layer whole, parts;
  const auto rule = make_optimiser(optimiser_options("lars"), parts.model);
  rule->step(0.5, 0, kBias);
  rule->step(0.5, 0, kMatrix);
  const std::vector<float> got(parts.weights.floats().begin(), parts.weights.floats().end());
  EXPECT_EQ(whole.step("lars"), got);
}

TEST(Lars, ACutLayerIsRefusedByNameAndNothingIsStepped) {
  Layer layer;
  const auto before = layer.weights.floats()[0];
  EXPECT_THAT(
      [&] {
        layer.step("lars", {0, 13});
      },
      ThrowsMessage<UsageError>(HasSubstr("'bias' is cut")));
  EXPECT_EQ(layer.weights.floats()[0], before);
}

}  // namespace
}  // namespace lockstep
