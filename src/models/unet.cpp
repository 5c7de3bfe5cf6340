// U-Net (Ronneberger et al. 2015): `depth` levels down, each of two
// convolutions and a pool, and as many up, each of a transposed convolution and
// two more, which also see what the level down gave before its pool.
// Convolutions are padded and normalised, so that each pixel of the image has
// its scores.
#include <fmt/format.h>

#include "core/error.h"
#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using torch::nn::Sequential;

class UNet {
 public:
  UNet(std::int64_t channels, std::int64_t classes, std::int64_t depth, std::int64_t width) {
    std::int64_t in = channels;
    for (std::int64_t level = 0; level < depth; ++level, width *= 2) {
      const std::string name = fmt::format("down{}", level);
      add_convolution(name + "_1", in, width);
      add_last_of_level(name + "_2", width, skip(level));
      in = width;
    }
    add_convolution("bottom_1", in, width);
    add_convolution("bottom_2", width, width);
    for (std::int64_t level = depth; level-- > 0;) {
      const std::string name = fmt::format("up{}", level);
      add_larger(name, width);
      width /= 2;
      add_first_of_level(name + "_1", width, skip(level));
      add_convolution(name + "_2", width, width);
    }
    const auto out = net_->register_module("out", convolution(width, classes, 1));
    blocks_.push_back(
        block_of("out", {out}, [out](const torch::Tensor& x) { return out->forward(x); }));
  }

  std::unique_ptr<Network> network() { return network_of_blocks(net_, std::move(blocks_)); }

 private:
  static std::string skip(std::int64_t level) { return fmt::format("level{}", level); }

  std::shared_ptr<torch::nn::SequentialImpl> convolved(const std::string& name, std::int64_t in,
                                                       std::int64_t out) {
    const auto layer = convolution(in, out, 3, 1, 1, false);
    draw_for_relu(layer);
    return net_->register_module(name, Sequential(layer, torch::nn::BatchNorm2d(out),
                                                  torch::nn::ReLU(torch::nn::ReLUOptions(true))));
  }
  void add_convolution(const std::string& name, std::int64_t in, std::int64_t out) {
    const auto layers = convolved(name, in, out);
    blocks_.push_back(
        block_of(name, {layers}, [layers](const torch::Tensor& x) { return layers->forward(x); }));
  }
  void add_last_of_level(const std::string& name, std::int64_t width, const std::string& gives) {
    const auto layers = convolved(name, width, width);
    blocks_.push_back(block_of(name, {layers}, {}, {gives},
                               [layers](const torch::Tensor& x, auto) -> Block::Output {
                                 const torch::Tensor y = layers->forward(x);
                                 return {torch::max_pool2d(y, 2), {y}};
                               }));
  }
  void add_larger(const std::string& name, std::int64_t in) {
    const auto layer = net_->register_module(
        name,
        torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(in, in / 2, 2).stride(2)));
    blocks_.push_back(
        block_of(name, {layer}, [layer](const torch::Tensor& x) { return layer->forward(x); }));
  }
  void add_first_of_level(const std::string& name, std::int64_t width, const std::string& takes) {
    const auto layers = convolved(name, 2 * width, width);
    blocks_.push_back(block_of(name, {layers}, {takes}, {},
                               [layers](const torch::Tensor& x, auto taken) -> Block::Output {
                                 return {layers->forward(torch::cat({taken[0], x}, 1)), {}};
                               }));
  }

  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Network> make_unet(const Options& options, const ModelInput& input) {
  const std::int64_t depth = options.integer("depth"), width = options.integer("width");
  if (depth < 1 || depth > 8 || width < 1)
    throw UsageError(
        fmt::format("unet:depth={},width={}: give 1 to 8, and at least 1", depth, width));
  const std::int64_t whole = std::int64_t{1} << depth;
  const Image image = image_of(input, options, whole);
  if (image.height % whole != 0 || image.width % whole != 0)
    throw UsageError(
        fmt::format("unet:depth={} halves images {} times, so their sides must "
                    "be multiples of {}, not {} x {}",
                    depth, depth, whole, image.height, image.width));
  return UNet(image.channels, input.classes, depth, width).network();
}

}  // namespace lockstep
