// ResNet-50 (He et al. 2016) with the stride in the 3 x 3 convolution, as Goyal et al. train it:
// names and order of torchvision's, so that parameters can be carried over.
#include <fmt/format.h>

#include "models/layers.h"

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

class ResNet50 final : public torch::nn::Module {
 public:
  ResNet50(std::int64_t channels, std::int64_t classes, bool zero_gamma)
      : conv1_(register_module("conv1", convolution(channels, 64, 7, 2, 3, false))),
        bn1_(register_module("bn1", BatchNorm2d(64))) {
    draw_for_relu(conv1_);
    constexpr int kBlocks[] = {3, 4, 6, 3};
    std::int64_t in = 64, width = 64;
    for (int stage = 0; stage < 4; ++stage, width *= 2) {
      Sequential blocks;
      for (int block = 0; block < kBlocks[stage]; ++block) {
        blocks->push_back(Bottleneck(in, width, stage > 0 && block == 0 ? 2 : 1, zero_gamma));
        in = width * Bottleneck::kExpansion;
      }
      stages_.push_back(register_module(fmt::format("layer{}", stage + 1), blocks));
    }
    dense_ = register_module("fc", torch::nn::Linear(in, classes));
  }

  torch::Tensor forward(const torch::Tensor& image) {
    torch::Tensor x = torch::relu(bn1_(conv1_(image)));
    x = torch::max_pool2d(x, 3, 2, 1);
    for (Sequential& stage : stages_) x = stage->forward(x);
    return dense_(x.mean({2, 3}));
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::vector<Sequential> stages_;
  torch::nn::Linear dense_{nullptr};
};

}  // namespace

std::unique_ptr<Network> make_resnet50(const Options& options, const ModelInput& input) {
  return network_of(std::make_shared<ResNet50>(image_of(input, options, 32).channels, input.classes,
                                               options.flag("zero_gamma")));
}

}  // namespace lockstep
