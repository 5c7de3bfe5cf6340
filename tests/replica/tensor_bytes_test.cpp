#include "replica/tensor_bytes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSlack = 4 * 4096;  // malloc rounds large ones up to pages

TEST(TensorBytes, FollowTensorsAsTheyComeAndGo) {
  const torch::Tensor before = torch::zeros({kMiB / 4});
  count_tensor_bytes();
  const std::uint64_t start = live_tensor_bytes();
  forget_tensor_peak();
  {
    const torch::Tensor one = torch::zeros({kMiB / 4}), same = one.view({2, -1});
    EXPECT_NEAR(live_tensor_bytes() - start, kMiB, kSlack);
    const torch::Tensor other = one + one;
    EXPECT_NEAR(live_tensor_bytes() - start, 2 * kMiB, kSlack);
  }
  EXPECT_EQ(live_tensor_bytes(), start);
  EXPECT_NEAR(peak_tensor_bytes() - start, 2 * kMiB, kSlack);
  forget_tensor_peak();
  EXPECT_EQ(peak_tensor_bytes(), start);
}

TEST(TensorBytes, LetGoOfWhatWasThereBefore) {
  auto before = std::make_unique<torch::Tensor>(torch::zeros({kMiB / 4}));
  count_tensor_bytes();
  const std::uint64_t start = live_tensor_bytes();
  before.reset();
  EXPECT_LE(live_tensor_bytes(), start);
}

}  // namespace
}  // namespace lockstep
