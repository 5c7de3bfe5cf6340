#include "models/registry.h"

#include "core/error.h"
#include "core/names.h"

namespace lockstep {
namespace {

constexpr ModelRow kRows[] = {
#define MODEL(function, name, labelled, defaults, description) \
  {name, Labelled::labelled, defaults, description, make_##function},
#include "models/models.def"
#undef MODEL
};

Labelled labelled_in(const ModelInput& input) {
  if (input.tokens) return Labelled::token;
  return input.label_shape.empty() ? Labelled::sample : Labelled::pixel;
}

// UsageError unless the network is for such data.
void check_labels(const ModelRow& row, const ModelInput& input) {
  constexpr std::string_view kEach[] = {"sample", "pixel", "token"};
  const Labelled wanted = labelled_in(input);
  if (row.labelled == wanted) return;
  std::vector<std::string_view> fitting;
  for (const ModelRow& other : kRows)
    if (other.labelled == wanted) fitting.push_back(other.name);
  throw UsageError(
      fmt::format("model '{}' gives a class for each {}, and the data has one for each {}: take {}",
                  row.name, kEach[static_cast<int>(row.labelled)], kEach[static_cast<int>(wanted)],
                  fmt::join(fitting, ", ")));
}

// One sample of zeros, to learn now what would else fail in the first step.
void check_fits(Network& network, std::string_view file, const ModelInput& input) {
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), 1);
  torch::Tensor scores;
  try {
    const torch::NoGradGuard no_grad;
    network.train(false);
    scores = network.forward(torch::zeros(shape, input.tokens ? torch::kInt64 : torch::kFloat32));
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
  std::vector<std::int64_t> due{input.classes};
  due.insert(due.end(), input.label_shape.begin(), input.label_shape.end());
  if (scores.sizes().slice(1) != at::IntArrayRef(due))
    throw UsageError(fmt::format(
        "'{}' gives {} for each sample: the data has {} classes{}", file,
        fmt::join(scores.sizes().slice(1), " x "), input.classes,
        due.size() == 1 ? "" : fmt::format(", for {} each", fmt::join(input.label_shape, " x "))));
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
  check_labels(row, input);
  return row.make(Options::with_defaults(spec, row.defaults), input);
}

}  // namespace lockstep
