// The network of the classic MNIST example: two convolutions, max-pool, two dense layers, dropout.
#include "models/layers.h"

namespace lockstep {
namespace {

class MnistCnn final : public torch::nn::Module {
 public:
  MnistCnn(Image image, std::int64_t classes, double dropout1, double dropout2)
      : conv1_(register_module("conv1", convolution(image.channels, 32, 3))),
        conv2_(register_module("conv2", convolution(32, 64, 3))),
        dropout1_(register_module("dropout1", torch::nn::Dropout(dropout1))),
        dense1_(register_module(
            "fc1",
            torch::nn::Linear(64 * ((image.height - 4) / 2) * ((image.width - 4) / 2), 128))),
        dropout2_(register_module("dropout2", torch::nn::Dropout(dropout2))),
        dense2_(register_module("fc2", torch::nn::Linear(128, classes))) {}

  torch::Tensor forward(const torch::Tensor& image) {
    torch::Tensor x = torch::relu(conv1_(image));
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
    x = torch::relu(dense1_(dropout1_(x).flatten(1)));
    return dense2_(dropout2_(x));
  }

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Dropout dropout1_;
  torch::nn::Linear dense1_;
  torch::nn::Dropout dropout2_;
  torch::nn::Linear dense2_;
};

}  // namespace

std::unique_ptr<Network> make_mnist_cnn(const Options& options, const ModelInput& input) {
  return network_of(std::make_shared<MnistCnn>(image_of(input, options, 6), input.classes,
                                               dropout_of(options, "dropout1"),
                                               dropout_of(options, "dropout2")));
}

}  // namespace lockstep
