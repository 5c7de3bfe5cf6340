// Synchronous SGD by all-reduce: every worker steps with the mean of all workers' gradients, so the
// replicas never part, and m workers with batches of b are one worker with a batch of m·b (Goyal et
// al.: Accurate, large minibatch SGD, 2017, section 2). Over any all-reduce.
//
// `average=weights`: every worker steps with its own gradient and then the weights are averaged.
// The same for plain SGD; a momentum, which stays each worker's own, makes it another algorithm
// (Zinkevich et al.: Parallelized stochastic gradient descent, 2010, at every step).
#include "strategies/average.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

class AllReduceSgd final : public Strategy, public Statement {
 public:
  AllReduceSgd(const Crew& crew, bool of_weights)
      : Strategy(crew, {.statement = this}), of_weights_(of_weights) {}

  void update(Replica& replica, const Step& step) override {
    if (!of_weights_)
      average(crew_, tag_of(Purpose::gradients, step), replica.gradients(), step.samples);
    replica.apply_gradients(step.number);
    if (of_weights_)
      average(crew_, tag_of(Purpose::weights, step), replica.weights(), step.samples);
  }

  // All workers have the same weights.
  void read_model(Replica& replica, Values model) override {
    copy(model.bytes(), replica.weights().bytes());
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const auto mean = mean_factors(step.samples, crew_.workers), own = only(rank, crew_.workers);
    return {{{0, count}, of_weights_ ? own : mean, of_weights_ ? mean : own}};
  }
  bool averages_by_samples() const override { return of_weights_; }
  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override {
    return average_bytes(crew_, rank, count);
  }

 private:
  const bool of_weights_;
};

}  // namespace

StrategyMaker all_reduce_sgd(const Options& options) {
  constexpr std::string_view kinds[] = {"gradients", "weights"};
  const bool of_weights = options.choice("average", kinds) == 1;
  return {[=](const Crew& crew) { return std::make_unique<AllReduceSgd>(crew, of_weights); }};
}

}  // namespace lockstep
