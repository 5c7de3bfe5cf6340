// Residual networks for small images (He et al. 2016, section 4.2): a convolution, three stages of
// n blocks with 16, 32 and 64 channels, mean, dense. 6n + 2 layers. Shortcuts have no parameters:
// where a stage halves the image, every other pixel, and zeros for the new channels.
#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

torch::Tensor shortcut(const torch::Tensor& x, std::int64_t out, std::int64_t stride) {
  if (stride == 1) return x;
  using torch::indexing::Slice;
  const torch::Tensor kept =
      x.index({Slice(), Slice(), Slice(0, {}, stride), Slice(0, {}, stride)});
  const std::int64_t fresh = out - x.size(1);
  return torch::constant_pad_nd(kept, {0, 0, 0, 0, fresh / 2, fresh - fresh / 2});
}

// `kPreActivated`: normalise and rectify before each convolution, and leave the sum alone (He et
// al. 2016b, "Identity mappings").
template <bool kPreActivated>
class Residual final : public torch::nn::Module {
 public:
  Residual(std::int64_t in, std::int64_t out, std::int64_t stride, bool zero_gamma)
      : out_(out),
        stride_(stride),
        conv1_(register_module("conv1", convolution(in, out, 3, stride, 1, false))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(kPreActivated ? in : out))),
        conv2_(register_module("conv2", convolution(out, out, 3, 1, 1, false))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    draw_for_relu(conv1_);
    draw_for_relu(conv2_);
    if (zero_gamma) torch::nn::init::zeros_(bn2_->weight);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    if constexpr (kPreActivated) {
      const torch::Tensor inner = conv1_(torch::relu(bn1_(x)));
      return conv2_(torch::relu(bn2_(inner))) + shortcut(x, out_, stride_);
    } else {
      const torch::Tensor inner = bn2_(conv2_(torch::relu(bn1_(conv1_(x)))));
      return torch::relu(inner + shortcut(x, out_, stride_));
    }
  }

 private:
  std::int64_t out_, stride_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
};

template <bool kPreActivated>
std::unique_ptr<Network> make(const Options& options, const ModelInput& input, int depth,
                              bool zero_gamma) {
  const auto net = std::make_shared<torch::nn::Module>();
  const std::int64_t channels = image_of(input, options, 4).channels;
  const auto conv = net->register_module("conv", convolution(channels, 16, 3, 1, 1, false));
  const auto norm = net->register_module("bn", torch::nn::BatchNorm2d(kPreActivated ? 64 : 16));
  const auto stack = net->register_module("blocks", torch::nn::Sequential());
  const auto dense = net->register_module("fc", torch::nn::Linear(64, input.classes));
  draw_for_relu(conv);
  std::int64_t in = 16;
  for (std::int64_t out : {16, 32, 64})
    for (int block = 0; block < (depth - 2) / 6; ++block) {
      stack->push_back(Residual<kPreActivated>(in, out, in == out ? 1 : 2, zero_gamma));
      in = out;
    }

  Modules first{conv}, last{dense};
  (kPreActivated ? last : first).push_back(norm);
  std::vector<Block> blocks = blocks_of(*stack, "blocks.");
  blocks.insert(blocks.begin(), block_of("conv", first, [=](const torch::Tensor& x) {
                  return kPreActivated ? conv->forward(x)
                                       : torch::relu(norm->forward(conv->forward(x)));
                }));
  blocks.push_back(block_of("fc", last, [=](const torch::Tensor& x) {
    return dense->forward((kPreActivated ? torch::relu(norm->forward(x)) : x).mean({2, 3}));
  }));
  return network_of_blocks(net, std::move(blocks));
}

}  // namespace

std::unique_ptr<Network> make_resnet20(const Options& options, const ModelInput& input) {
  return make<false>(options, input, 20, options.flag("zero_gamma"));
}

std::unique_ptr<Network> make_resnet32(const Options& options, const ModelInput& input) {
  return make<false>(options, input, 32, options.flag("zero_gamma"));
}

std::unique_ptr<Network> make_resnet110(const Options& options, const ModelInput& input) {
  return make<true>(options, input, 110, false);
}

}  // namespace lockstep
