// Residual networks of pre-activated bottlenecks for small images (He et al.
// 2016b, "Identity mappings"), as the example of Keras has them (resnet_v2,
// depth 9n + 2), which the GEMS paper trains: a convolution, three stages of n
// bottlenecks, mean, dense. Only the dense layer has biases: that gives the
// parameters the paper counts.
#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;

// He et al. 2015, fan in.
Conv2d drawn(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  const Conv2d layer = convolution(in, out, kernel, stride, kernel / 2, false);
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanIn, torch::kReLU);
  return layer;
}

class Bottleneck final : public torch::nn::Module {
 public:
  // `activated`: what comes in already is, by the convolution that starts the
  // network.
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t out, std::int64_t stride,
             bool activated)
      : conv1_(register_module("conv1", drawn(in, width, 1, stride))),
        bn2_(register_module("bn2", BatchNorm2d(width))),
        conv2_(register_module("conv2", drawn(width, width, 3))),
        bn3_(register_module("bn3", BatchNorm2d(width))),
        conv3_(register_module("conv3", drawn(width, out, 1))) {
    if (!activated) bn1_ = register_module("bn1", BatchNorm2d(in));
    if (in != out) shortcut_ = register_module("shortcut", drawn(in, out, 1, stride));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = conv1_(bn1_.is_empty() ? x : torch::relu(bn1_(x)));
    y = conv2_(torch::relu(bn2_(y)));
    y = conv3_(torch::relu(bn3_(y)));
    return y + (shortcut_.is_empty() ? x : shortcut_(x));
  }

 private:
  BatchNorm2d bn1_{nullptr};
  Conv2d conv1_;
  BatchNorm2d bn2_;
  Conv2d conv2_;
  BatchNorm2d bn3_;
  Conv2d conv3_;
  Conv2d shortcut_{nullptr};
};

std::unique_ptr<Network> make(const Options& options, const ModelInput& input, int depth) {
  const auto net = std::make_shared<torch::nn::Module>();
  const std::int64_t channels = image_of(input, options, 4).channels;
  const auto conv = net->register_module("conv", drawn(channels, 16, 3));
  const auto norm1 = net->register_module("bn1", BatchNorm2d(16));
  const auto stack = net->register_module("blocks", torch::nn::Sequential());
  std::int64_t in = 16, width = 16;
  for (const std::int64_t out : {64, 128, 256}) {
    for (int block = 0; block < (depth - 2) / 9; ++block) {
      const bool first = block == 0;
      stack->push_back(Bottleneck(in, width, out, first && out > 64 ? 2 : 1, first && out == 64));
      in = out;
    }
    width = out;
  }
  const auto norm2 = net->register_module("bn2", BatchNorm2d(in));
  const auto dense = net->register_module("fc", torch::nn::Linear(in, input.classes));

  std::vector<Block> blocks = blocks_of(*stack, "blocks.");
  blocks.insert(blocks.begin(), block_of("conv", {conv, norm1}, [=](const torch::Tensor& x) {
                  return torch::relu(norm1->forward(conv->forward(x)));
                }));
  blocks.push_back(block_of("fc", {norm2, dense}, [=](const torch::Tensor& x) {
    return dense->forward(torch::relu(norm2->forward(x)).mean({2, 3}));
  }));
  return network_of_blocks(net, std::move(blocks));
}

}  // namespace

std::unique_ptr<Network> make_resnet110v2(const Options& options, const ModelInput& input) {
  return make(options, input, 110);
}

std::unique_ptr<Network> make_resnet1001v2(const Options& options, const ModelInput& input) {
  return make(options, input, 1001);
}

}  // namespace lockstep
