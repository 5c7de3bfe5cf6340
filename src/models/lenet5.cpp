// LeNet-5 (LeCun et al. 1998) as it is trained today: rectifiers and max-pools. Images of 28 x 28
// are padded to the paper's 32 x 32.
#include "models/layers.h"

namespace lockstep {

std::unique_ptr<Network> make_lenet5(const Options& options, const ModelInput& input) {
  using namespace torch::nn;
  const Image image = image_of(input, options, 12);
  const auto side = [](std::int64_t pixels) { return (pixels / 2 - 4) / 2; };
  return network_of(Sequential(convolution(image.channels, 6, 5, 1, 2), ReLU(), MaxPool2d(2),  //
                               convolution(6, 16, 5), ReLU(), MaxPool2d(2),                    //
                               Flatten(), Linear(16 * side(image.height) * side(image.width), 120),
                               ReLU(), Linear(120, 84), ReLU(), Linear(84, input.classes)));
}

}  // namespace lockstep
