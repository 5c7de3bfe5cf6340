// ResNet-50 (He et al. 2016) with the stride in the 3 x 3 convolution, as Goyal et al. train it:
// names and order of torchvision's, so that parameters can be carried over.
#include <fmt/format.h>

#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Sequential;

class Bottleneck final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, bool zero_gamma)
      : conv1_(register_module("conv1", convolution(in, width, 1, 1, 0, false))),
        bn1_(register_module("bn1", BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, stride, 1, false))),
        bn2_(register_module("bn2", BatchNorm2d(width))),
        conv3_(register_module("conv3", convolution(width, width * kExpansion, 1, 1, 0, false))),
        bn3_(register_module("bn3", BatchNorm2d(width * kExpansion))) {
    for (const Conv2d& layer : {conv1_, conv2_, conv3_}) draw_for_relu(layer);
    if (zero_gamma) torch::nn::init::zeros_(bn3_->weight);
    if (in == width * kExpansion) return;
    const Conv2d projection = convolution(in, width * kExpansion, 1, stride, 0, false);
    draw_for_relu(projection);
    downsample_ =
        register_module("downsample", Sequential(projection, BatchNorm2d(width * kExpansion)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(bn1_(conv1_(x)));
    y = torch::relu(bn2_(conv2_(y)));
    y = bn3_(conv3_(y));
    return torch::relu_(y += downsample_.is_empty() ? x : downsample_->forward(x));
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Sequential downsample_{nullptr};
};

}  // namespace

std::unique_ptr<Network> make_resnet50(const Options& options, const ModelInput& input) {
  const bool zero_gamma = options.flag("zero_gamma");
  const auto net = std::make_shared<torch::nn::Module>();
  const std::int64_t channels = image_of(input, options, 32).channels;
  const auto conv = net->register_module("conv1", convolution(channels, 64, 7, 2, 3, false));
  const auto norm = net->register_module("bn1", BatchNorm2d(64));
  draw_for_relu(conv);
  std::vector<Block> blocks{block_of("conv1", {conv, norm}, [=](const torch::Tensor& image) {
    return torch::max_pool2d(torch::relu(norm->forward(conv->forward(image))), 3, 2, 1);
  })};
  constexpr int kBlocks[] = {3, 4, 6, 3};
  std::int64_t in = 64, width = 64;
  for (int stage = 0; stage < 4; ++stage, width *= 2) {
    Sequential stack;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      stack->push_back(Bottleneck(in, width, stage > 0 && block == 0 ? 2 : 1, zero_gamma));
      in = width * Bottleneck::kExpansion;
    }
    const std::string name = fmt::format("layer{}", stage + 1);
    for (Block& block : blocks_of(*net->register_module(name, stack), name + "."))
      blocks.push_back(std::move(block));
  }
  const auto dense = net->register_module("fc", torch::nn::Linear(in, input.classes));
  blocks.push_back(block_of("fc", {dense}, [=](const torch::Tensor& x) {
    return dense->forward(x.mean({2, 3}));
  }));
  return network_of_blocks(net, std::move(blocks));
}

}  // namespace lockstep
