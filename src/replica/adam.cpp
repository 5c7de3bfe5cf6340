// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), in the order of operations of
// torch::optim's. They differ in what weight decay enters: the gradient, or the weights alone.
#include <cmath>

#include "core/zero_pages.h"
#include "replica/optimiser.h"

namespace lockstep {
namespace {

enum class Decay { in_gradient, of_weights };

class Adam final : public Optimiser {
 public:
  Adam(const Options& options, const FlatModel& model, Decay decay)
      : model_(model),
        decay_(decay),
        beta1_(options.number("beta1")),
        beta2_(options.number("beta2")),
        eps_(options.number("eps")),
        weight_decay_(options.number("weight_decay")),
        mean_(model.count() * size_of(Type::fp32)),
        square_(model.count() * size_of(Type::fp32)) {}

  void step(double lr, std::uint64_t updates, Slice part) override {
    for (Slice block : pieces(part, kBlock)) step_block(lr, updates, block);
  }

  bool ignores_scale() const override { return true; }
  std::vector<OptimiserState> state() override {
    return {{"mean", mean_.floats()}, {"square", square_.floats()}};
  }

 private:
  void step_block(double lr, std::uint64_t updates, Slice part) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor weights = view_of(model_.weights(), part);
    const torch::Tensor gradients = view_of(model_.gradients(), part);
    const torch::Tensor mean = view_of(mean_.floats().data(), part);
    const torch::Tensor square = view_of(square_.floats().data(), part);

    const auto t = static_cast<double>(updates + 1);
    const double correction1 = 1 - std::pow(beta1_, t), correction2 = 1 - std::pow(beta2_, t);
    if (weight_decay_ != 0 && decay_ == Decay::of_weights) weights.mul_(1 - lr * weight_decay_);
    if (weight_decay_ != 0 && decay_ == Decay::in_gradient) gradients.add_(weights, weight_decay_);
    mean.mul_(beta1_).add_(gradients, 1 - beta1_);
    square.mul_(beta2_).addcmul_(gradients, gradients, 1 - beta2_);
    const torch::Tensor spread = (square.sqrt() / std::sqrt(correction2)).add_(eps_);
    weights.addcdiv_(mean, spread, -(lr / correction1));
    gradients.zero_();
  }

  const FlatModel& model_;
  Decay decay_;
  double beta1_, beta2_, eps_, weight_decay_;
  ZeroPages mean_, square_;
};

}  // namespace

std::unique_ptr<Optimiser> make_adam(const Options& options, const FlatModel& model) {
  return std::make_unique<Adam>(options, model, Decay::in_gradient);
}

std::unique_ptr<Optimiser> make_adamw(const Options& options, const FlatModel& model) {
  return std::make_unique<Adam>(options, model, Decay::of_weights);
}

}  // namespace lockstep
