// SlowMo: a slow momentum over rounds of Local SGD (Wang et al.: SlowMo: Improving
// communication-efficient distributed SGD with slow momentum, 2020). After `period` (tau) steps,
// with x_0 where the round began, x_tau the workers' mean and gamma the learning rate:
//
//   u = beta u + (x_0 - x_tau)/gamma
//   x_0 = x_0 - alpha gamma u
//
// beta = 0, alpha = 1 is Local SGD, to rounding: x_0 less the way to x_tau is x_tau only where the
// subtraction is exact.
#include "strategies/add_scaled.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/synchronous/local_sgd.h"

namespace lockstep {
namespace {

class SlowMo final : public OuterLoop {
 public:
  SlowMo(const Crew& crew, std::uint64_t period, double beta, double alpha)
      : OuterLoop(crew, period, {"slow-mo", "x_0", "u"}), beta_(beta), alpha_(alpha) {}

 private:
  // A rate of zero has no way to be divided: then the mean is where the next round begins.
  void outer_step(Values x_tau, Values x_0, Values u, double gamma) const override {
    if (gamma == 0) return copy(x_0.bytes(), x_tau.bytes());
    const Values way = x_tau;
    add_scaled(way, -1, x_0);
    scale(u, beta_);
    add_scaled(u, -1 / gamma, way);
    add_scaled(x_0, -alpha_ * gamma, u);
  }

  Factors of_start(double gamma) const override {
    if (gamma == 0) return {1, 0, 0};
    return {alpha_, 1 - alpha_, -alpha_ * gamma * beta_};
  }
  Factors of_momentum(double gamma) const override {
    if (gamma == 0) return {0, 0, 1};
    return {-1 / gamma, 1 / gamma, beta_};
  }

  const double beta_, alpha_;
};

}  // namespace

StrategyMaker slow_mo(const Options& options) {
  const std::int64_t period = at_least(1, options, "period");
  const double beta = below_one(options, "momentum"), alpha = above_zero(options, "rate");
  return {
      .make = [=](const Crew& crew) { return std::make_unique<SlowMo>(crew, period, beta, alpha); },
      .notice = exchanges_first_after(options, "period", period),
      .travels = Travels::mean_of_weights};
}

}  // namespace lockstep
