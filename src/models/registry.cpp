#include "models/registry.h"

#include "core/error.h"
#include "core/names.h"

namespace lockstep {
namespace {

constexpr ModelRow kRows[] = {
#define MODEL(function, name, defaults, description) {name, defaults, description, make_##function},
#include "models/models.def"
#undef MODEL
};

// One sample of zeros, to learn now what would else fail in the first step.
void check_fits(Network& network, std::string_view file, const ModelInput& input) {
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), 1);
  torch::Tensor scores;
  try {
    const torch::NoGradGuard no_grad;
    network.train(false);
    scores = network.forward(torch::zeros(shape));
    network.train(true);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception&) {
    throw UsageError(fmt::format("'{}' cannot take a batch of shape {}: check --data", file,
                                 fmt::join(shape, " x ")));
  }
  if (scores.dim() == 0)
    throw UsageError(fmt::format(
        "'{}' gives one number for a whole batch: let it give {} scores for each sample", file,
        input.classes));
  if (scores.dim() != 2 || scores.size(1) != input.classes)
    throw UsageError(fmt::format("'{}' gives {} for each sample: the data has {} classes", file,
                                 fmt::join(scores.sizes().slice(1), " x "), input.classes));
}

}  // namespace

std::span<const ModelRow> models() { return kRows; }

bool names_file(std::string_view spec) {
  return spec.ends_with(".pt") || spec.find('/') != std::string_view::npos;
}

std::unique_ptr<Network> make_model(std::string_view spec, const ModelInput& input) {
  if (names_file(spec)) {
    auto network = load_script(std::string(spec));
    check_trainable(*network);
    check_fits(*network, spec, input);
    return network;
  }
  const ModelRow& row = row_named("model", Options::name_in(spec), kRows);
  return row.make(Options::with_defaults(spec, row.defaults), input);
}

}  // namespace lockstep
