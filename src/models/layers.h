// What the networks here share: the size of an image on its way through, and checks of what the
// user asked for.
#pragma once

#include "models/registry.h"

namespace lockstep {

struct Image {
  std::int64_t channels, height, width;
};

// The sample's shape as an image. UsageError, in the model's name, unless it is one of at least
// `least` by `least`.
Image image_of(const ModelInput&, const Options& model, std::int64_t least);
// A probability to drop with: from 0 to below 1.
double dropout_of(const Options& model, std::string_view key);

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride = 1, std::int64_t padding = 0, bool bias = true);

// Draws its weights so that rectifiers after it neither fade nor grow what flows back (He et al.
// 2015, fan out).
void draw_for_relu(const torch::nn::Conv2d&);

}  // namespace lockstep
