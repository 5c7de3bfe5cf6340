// VGG-16 (Simonyan and Zisserman 2015, configuration D), with the last pool adapted to 7 x 7, so
// that images of any size from 32 x 32 fit.
#include "models/layers.h"

namespace lockstep {
namespace {

class Vgg16 final : public torch::nn::Module {
 public:
  Vgg16(std::int64_t channels, std::int64_t classes, double dropout) {
    using namespace torch::nn;
    const auto relu = [] { return ReLU(ReLUOptions(true)); };
    constexpr int kPool = 0;
    for (std::int64_t width : {64, 64, kPool, 128, 128, kPool, 256, 256, 256, kPool, 512, 512, 512,
                               kPool, 512, 512, 512, kPool}) {
      if (width == kPool) {
        features_->push_back(MaxPool2d(2));
        continue;
      }
      const Conv2d layer = convolution(channels, width, 3, 1, 1);
      draw_for_relu(layer);
      torch::nn::init::zeros_(layer->bias);
      features_->push_back(layer);
      features_->push_back(relu());
      channels = width;
    }
    features_->push_back(AdaptiveAvgPool2d(7));
    std::int64_t in = 512 * 7 * 7;
    for (int layer = 0; layer < 2; ++layer) {
      classifier_->push_back(dense(in, 4096));
      classifier_->push_back(relu());
      classifier_->push_back(Dropout(dropout));
      in = 4096;
    }
    classifier_->push_back(dense(in, classes));
    register_module("features", features_);
    register_module("classifier", classifier_);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return classifier_->forward(features_->forward(x).flatten(1));
  }

 private:
  static torch::nn::Linear dense(std::int64_t in, std::int64_t out) {
    torch::nn::Linear layer(in, out);
    torch::nn::init::normal_(layer->weight, 0, 0.01);
    torch::nn::init::zeros_(layer->bias);
    return layer;
  }

  torch::nn::Sequential features_, classifier_;
};

}  // namespace

std::unique_ptr<Network> make_vgg16(const Options& options, const ModelInput& input) {
  return network_of(std::make_shared<Vgg16>(image_of(input, options, 32).channels, input.classes,
                                            dropout_of(options, "dropout")));
}

}  // namespace lockstep
