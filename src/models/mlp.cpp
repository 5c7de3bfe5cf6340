// Dense layers with rectifiers between them: few operations for many parameters, so communication
// dominates.
#include <functional>
#include <numeric>

#include "core/error.h"
#include "models/registry.h"

namespace lockstep {

std::unique_ptr<Network> make_mlp(const Options& options, const ModelInput& input) {
  const std::int64_t width = options.integer("width"), depth = options.integer("depth");
  if (width < 1 || depth < 0)
    throw UsageError(fmt::format("mlp:width={},depth={}: give at least 1 and 0", width, depth));
  std::int64_t in =
      std::accumulate(input.shape.begin(), input.shape.end(), std::int64_t{1}, std::multiplies<>());
  torch::nn::Sequential layers{torch::nn::Flatten()};
  for (std::int64_t layer = 0; layer < depth; ++layer) {
    layers->push_back(torch::nn::Linear(in, width));
    layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
    in = width;
  }
  layers->push_back(torch::nn::Linear(in, input.classes));
  return network_of(layers);
}

}  // namespace lockstep
