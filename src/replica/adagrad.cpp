// Adagrad (Duchi, Hazan and Singer: Adaptive subgradient methods for online learning and stochastic
// optimization, 2011), in the order of operations of torch::optim's: G += g², w -= lr g / sqrt(G).
// Downpour's servers step with it (Dean et al. 2012).
#include "core/zero_pages.h"
#include "replica/optimiser.h"

namespace lockstep {
namespace {

class Adagrad final : public Optimiser {
 public:
  Adagrad(const Options& options, const FlatModel& model)
      : model_(model),
        eps_(options.number("eps")),
        weight_decay_(options.number("weight_decay")),
        sum_(model.count() * size_of(Type::fp32)) {}

  void step(double lr, std::uint64_t, Slice part) override {
    for (Slice block : pieces(part, kBlock)) step_block(lr, block);
  }

  bool ignores_scale() const override { return true; }
  std::vector<OptimiserState> state() override { return {{"sum", sum_.floats()}}; }

 private:
  void step_block(double lr, Slice part) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor weights = view_of(model_.weights(), part);
    const torch::Tensor gradients = view_of(model_.gradients(), part);
    const torch::Tensor squares = view_of(sum_.floats().data(), part);

    if (weight_decay_ != 0) gradients.add_(weights, weight_decay_);
    squares.addcmul_(gradients, gradients, 1);
    weights.addcdiv_(gradients, squares.sqrt().add_(eps_), -lr);
    gradients.zero_();
  }

  const FlatModel& model_;
  const double eps_, weight_decay_;
  ZeroPages sum_;  // of squared gradients
};

}  // namespace

std::unique_ptr<Optimiser> make_adagrad(const Options& options, const FlatModel& model) {
  return std::make_unique<Adagrad>(options, model);
}

}  // namespace lockstep
