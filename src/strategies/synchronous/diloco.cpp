// DiLoCo: rounds of many steps alone, and Nesterov's momentum over rounds (Douillard et al.:
// DiLoCo: Distributed low-communication training of language models, 2023). After `period` (H)
// inner steps from theta, which with AdamW is the paper's:
//
//   D = theta - mean_i(theta_i)
//   v = mu v + D
//   theta = theta - lr (D + mu v)
//
// lr = 1, mu = 0 is Local SGD, to rounding: theta less the way to the mean is the mean only where
// the subtraction is exact.
#include "strategies/add_scaled.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/synchronous/local_sgd.h"

namespace lockstep {
namespace {

class DiLoCo final : public OuterLoop {
 public:
  DiLoCo(const Crew& crew, std::uint64_t period, double lr, double mu)
      : OuterLoop(crew, period, {"diloco", "theta", "v"}), lr_(lr), mu_(mu) {}

 private:
  void outer_step(Values mean, Values theta, Values v, double) const override {
    const Values minus_d = mean;
    add_scaled(minus_d, -1, theta);
    scale(v, mu_);
    add_scaled(v, -1, minus_d);
    add_scaled(theta, lr_, minus_d);
    add_scaled(theta, -lr_ * mu_, v);
  }

  Factors of_start(double) const override {
    const double of_d = lr_ * (1 + mu_);
    return {of_d, 1 - of_d, -lr_ * mu_ * mu_};
  }
  Factors of_momentum(double) const override { return {-1, 1, mu_}; }

  const double lr_, mu_;
};

}  // namespace

StrategyMaker diloco(const Options& options) {
  const std::int64_t period = at_least(1, options, "period");
  const double lr = above_zero(options, "lr"), mu = below_one(options, "momentum");
  return {.make = [=](const Crew& crew) { return std::make_unique<DiLoCo>(crew, period, lr, mu); },
          .notice = exchanges_first_after(options, "period", period),
          .travels = Travels::mean_of_weights};
}

}  // namespace lockstep
