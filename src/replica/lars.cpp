// LARS (You, Gitman and Ginsburg 2017): each layer's rate in proportion to the norm of its weights
// over the norm of its gradient, so that no layer's step outgrows the layer at large batches.
//   lambda = eta |w| / (|g| + decay |w|),  v = mu v + lr lambda (g + decay w),  w -= v
// lambda is 1 where a norm is 0. Parameters of one dimension (biases, normalisations) take
// lambda 1 and no decay.
#include "core/error.h"
#include "core/zero_pages.h"
#include "replica/optimiser.h"

namespace lockstep {
namespace {

class Lars final : public Optimiser {
 public:
  Lars(const Options& options, const FlatModel& model)
      : model_(model),
        momentum_(options.number("momentum")),
        weight_decay_(options.number("weight_decay")),
        eta_(options.number("eta")),
        velocity_(model.count() * size_of(Type::fp32)) {}

  void step(double lr, std::uint64_t, Slice part) override {
    std::vector<const Parameter*> layers;
    for (const Parameter& layer : model_.parameters()) {
      const Slice s = layer.slice;
      if (s.begin >= part.end() || s.end() <= part.begin) continue;
      if (s.begin < part.begin || s.end() > part.end())
        throw UsageError(fmt::format(
            "'lars' needs whole layers, and here '{}' is cut: take a strategy that steps all "
            "parameters at once, or another optimizer",
            layer.name));
      layers.push_back(&layer);
    }
    for (const Parameter* layer : layers) step_layer(lr, *layer);
  }

  bool ignores_scale() const override { return true; }
  bool needs_whole_layers() const override { return true; }

  std::vector<OptimiserState> state() override { return {{"velocity", velocity_.floats()}}; }

 private:
  void step_layer(double lr, const Parameter& layer) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor weights = view_of(model_.weights(), layer.slice);
    const torch::Tensor gradients = view_of(model_.gradients(), layer.slice);
    const torch::Tensor velocity = view_of(velocity_.floats().data(), layer.slice);

    const bool adapts = layer.shape.size() > 1;
    const double decay = adapts ? weight_decay_ : 0;
    double lambda = 1;
    if (adapts) {
      const double weight_norm = weights.norm().item<double>();
      const double gradient_norm = gradients.norm().item<double>();
      if (weight_norm > 0 && gradient_norm > 0)
        lambda = eta_ * weight_norm / (gradient_norm + decay * weight_norm);
    }
    if (decay != 0) gradients.add_(weights, decay);
    velocity.mul_(momentum_).add_(gradients, lr * lambda);
    weights.sub_(velocity);
    gradients.zero_();
  }

  const FlatModel& model_;
  double momentum_, weight_decay_, eta_;
  ZeroPages velocity_;
};

}  // namespace

std::unique_ptr<Optimiser> make_lars(const Options& options, const FlatModel& model) {
  return std::make_unique<Lars>(options, model);
}

}  // namespace lockstep
