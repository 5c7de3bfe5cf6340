// Synchronous SGD by all-reduce: every worker steps with the mean of all workers' gradients, so the
// replicas never part, and m workers with batches of b are one worker with a batch of m·b (Goyal et
// al.: Accurate, large minibatch SGD, 2017, section 2). Over any all-reduce.
//
// `average=weights`: every worker steps with its own gradient and then the weights are averaged.
// The same for plain SGD; a momentum, which stays each worker's own, makes it another algorithm
// (Zinkevich et al.: Parallelized stochastic gradient descent, 2010, at every step).
#include "strategies/average.h"
#include "strategies/mean.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

class AllReduceSgd final : public Strategy, public Statement, public Fed, public Measured {
 public:
  AllReduceSgd(const Crew& crew, bool of_weights)
      : Strategy(crew, {.statement = this, .fed = of_weights ? nullptr : this, .measured = this}),
        of_weights_(of_weights),
        mean_(make_mean(crew, averaged())) {}

  void begin(Replica& replica) override {
    mean_->begin(of_weights_ ? replica.weights() : replica.gradients(), replica.parameters());
  }
  void expect(Replica&, const Step& step) override { mean_->open(step, step.samples); }
  void ready(Slice part) override { mean_->ready(part); }
  bool begins_early() const override { return mean_->begins_early(); }

  void update(Replica& replica, const Step& step) override {
    if (!of_weights_) mean_->run(step, step.samples);
    replica.apply_gradients(step.number);
    if (of_weights_) mean_->run(step, step.samples);
  }

  // All workers have the same weights.
  void read_model(Replica& replica, Values model) override {
    copy(model.bytes(), replica.weights().bytes());
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const auto own = only(rank, crew_.workers);
    Flow flow{{0, count}, own, own};
    const Mean::Sum mean = mean_->stated(step.samples);
    of_weights_ ? state_weights(flow, mean, crew_.workers) : state_gradients(flow, mean);
    return {flow};
  }
  std::vector<Flow> flows_of_memory(std::size_t which, const Step& step, int rank,
                                    std::size_t count) const override {
    return {flow_of_memory(mean_->stated_of_memory(which, rank, step.samples), averaged(), count,
                           crew_.workers)};
  }
  bool averages_by_samples() const override { return of_weights_; }

  const Figures& figures() override { return mean_->figures(); }
  std::vector<Kept> memories() override { return mean_->memories(); }
  std::string state() const override { return mean_->state(); }
  void restore(const std::string& state) override { mean_->restore(state); }

  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override {
    return mean_->bytes_sent(rank, count);
  }

 private:
  Purpose averaged() const { return of_weights_ ? Purpose::weights : Purpose::gradients; }

  const bool of_weights_;
  const std::unique_ptr<Mean> mean_;
};

}  // namespace

StrategyMaker all_reduce_sgd(const Options& options) {
  constexpr std::string_view kinds[] = {"gradients", "weights"};
  const bool of_weights = options.choice("average", kinds) == 1;
  return {
      .make = [=](const Crew& crew) { return std::make_unique<AllReduceSgd>(crew, of_weights); },
      .travels = of_weights ? Travels::mean_of_weights : Travels::mean_of_gradients};
}

}  // namespace lockstep
