// The network of the classic MNIST example: two convolutions, max-pool, two dense layers, dropout.
#include "models/layers.h"

namespace lockstep {

std::unique_ptr<Network> make_mnist_cnn(const Options& options, const ModelInput& input) {
  using namespace torch::nn;
  const Image image = image_of(input, options, 6);
  const std::int64_t pooled = 64 * ((image.height - 4) / 2) * ((image.width - 4) / 2);
  const double dropout1 = dropout_of(options, "dropout1"),
               dropout2 = dropout_of(options, "dropout2");
  Sequential layers;
  layers->push_back("conv1", convolution(image.channels, 32, 3));
  layers->push_back("relu1", ReLU());
  layers->push_back("conv2", convolution(32, 64, 3));
  layers->push_back("relu2", ReLU());
  layers->push_back("pool", MaxPool2d(2));
  layers->push_back("dropout1", Dropout(dropout1));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", Linear(pooled, 128));
  layers->push_back("relu3", ReLU());
  layers->push_back("dropout2", Dropout(dropout2));
  layers->push_back("fc2", Linear(128, input.classes));
  return network_of(layers);
}

}  // namespace lockstep
