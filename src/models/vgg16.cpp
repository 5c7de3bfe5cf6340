// VGG-16 (Simonyan and Zisserman 2015, configuration D), with the last pool adapted to 7 x 7, so
// that images of any size from 32 x 32 fit.
#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using namespace torch::nn;

ReLU relu() { return ReLU(ReLUOptions(true)); }

Linear dense(std::int64_t in, std::int64_t out) {
  Linear layer(in, out);
  init::normal_(layer->weight, 0, 0.01);
  init::zeros_(layer->bias);
  return layer;
}

Sequential features(std::int64_t channels) {
  Sequential layers;
  constexpr int kPool = 0;
  for (std::int64_t width : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512,
                             kPool, 512, 512, 512, kPool}) {
    if (width == kPool) {
      layers->push_back(MaxPool2d(2));
      continue;
    }
    const Conv2d layer = convolution(channels, width, 3, 1, 1);
    draw_for_relu(layer);
    init::zeros_(layer->bias);
    layers->push_back(layer);
    layers->push_back(relu());
    channels = width;
  }
  layers->push_back(AdaptiveAvgPool2d(7));
  layers->push_back(Flatten());
  return layers;
}

Sequential classifier(std::int64_t classes, double dropout) {
  Sequential layers;
  std::int64_t in = 512 * 7 * 7;
  for (int layer = 0; layer < 2; ++layer) {
    layers->push_back(dense(in, 4096));
    layers->push_back(relu());
    layers->push_back(Dropout(dropout));
    in = 4096;
  }
  layers->push_back(dense(in, classes));
  return layers;
}

}  // namespace

std::unique_ptr<Network> make_vgg16(const Options& options, const ModelInput& input) {
  const std::int64_t channels = image_of(input, options, 32).channels;
  const double dropout = dropout_of(options, "dropout");
  const auto net = std::make_shared<Module>();
  std::vector<Block> blocks =
      blocks_of(*net->register_module("features", features(channels)), "features.");
  for (Block& block : blocks_of(
           *net->register_module("classifier", classifier(input.classes, dropout)), "classifier."))
    blocks.push_back(std::move(block));
  return network_of_blocks(net, std::move(blocks));
}

}  // namespace lockstep
