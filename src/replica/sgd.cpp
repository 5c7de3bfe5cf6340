// Stochastic gradient descent as torch::optim::SGD writes it: v = mu v + (1 - dampening) g and
// w -= lr v, so a change of the learning rate needs no correction of v.
#include "core/kernels.h"
#include "core/zero_pages.h"
#include "replica/optimiser.h"

namespace lockstep {
namespace {

class Sgd final : public Optimiser {
 public:
  Sgd(const Options& options, const FlatModel& model)
      : model_(model),
        momentum_(static_cast<float>(options.number("momentum"))),
        take_(static_cast<float>(1 - options.number("dampening"))),
        weight_decay_(static_cast<float>(options.number("weight_decay"))),
        nesterov_(options.flag("nesterov")),
        velocity_(momentum_ != 0 ? model.count() * size_of(Type::fp32) : 0) {}

  void step(double lr, std::uint64_t updates, Slice part) override {
    SgdRule rule{.minus_lr = static_cast<float>(-lr),
                 .weight_decay = weight_decay_,
                 .keep = momentum_,
                 .take = take_,
                 .look_ahead = nesterov_ ? momentum_ : 0};
    // The first velocity is the gradient itself, to the sign of a zero: v is zero here, and
    // -0 * 0 + 1 * g is g.
    if (updates == 0) rule.keep = -0.0f, rule.take = 1;
    float* const weights = model_.weights();
    float* const gradients = model_.gradients();
    float* const velocity = momentum_ != 0 ? velocity_.floats().data() : nullptr;
    at::parallel_for(0, static_cast<std::int64_t>(part.count), at::internal::GRAIN_SIZE,
                     [&](std::int64_t begin, std::int64_t end) {
                       const std::size_t at = part.begin + static_cast<std::size_t>(begin);
                       kernels().sgd(rule, weights + at, gradients + at,
                                     velocity ? velocity + at : nullptr,
                                     static_cast<std::size_t>(end - begin));
                     });
  }

  std::vector<OptimiserState> state() override {
    if (momentum_ == 0) return {};
    return {{"velocity", velocity_.floats()}};
  }

 private:
  const FlatModel& model_;
  float momentum_, take_, weight_decay_;
  bool nesterov_;
  ZeroPages velocity_;  // without momentum: no memory
};

}  // namespace

std::unique_ptr<Optimiser> make_sgd(const Options& options, const FlatModel& model) {
  return std::make_unique<Sgd>(options, model);
}

}  // namespace lockstep
