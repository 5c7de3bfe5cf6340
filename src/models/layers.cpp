#include "models/layers.h"

#include "core/error.h"

namespace lockstep {

Image image_of(const ModelInput& input, const Options& model, std::int64_t least) {
  if (input.shape.size() != 3 || input.shape[1] < least || input.shape[2] < least)
    throw UsageError(fmt::format(
        "model '{}' takes images of channels x height x width, at least {} x {}, not {}: take "
        "'mlp', which takes any samples",
        model.name(), least, least, fmt::join(input.shape, " x ")));
  return {input.shape[0], input.shape[1], input.shape[2]};
}

double dropout_of(const Options& model, std::string_view key) {
  const double probability = model.number(key);
  if (!(probability >= 0 && probability < 1))
    throw UsageError(fmt::format("{} of '{}' is {}: give a probability from 0 to below 1", key,
                                 model.name(), probability));
  return probability;
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding, bool bias) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(bias));
}

void draw_for_relu(const torch::nn::Conv2d& layer) {
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
}

}  // namespace lockstep
