// Local SGD: every worker steps with its own gradient; every `period` steps the weights are
// averaged: w <- (1/m) sum_j w_j (Stich: Local SGD converges fast and communicates little, 2019).
// Post-local SGD averages after every step before epoch `from_epoch` (Lin et al.: Don't use large
// mini-batches, use local SGD, 2020). A worker's weights count by its samples since the last
// average. Optimiser state stays each worker's own.
#include <algorithm>
#include <sstream>

#include "strategies/average.h"
#include "strategies/mean.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

class LocalSgd final : public Strategy, public Statement, public Measured {
 public:
  LocalSgd(const Crew& crew, std::uint64_t period, int from_epoch)
      : Strategy(crew, {.statement = this, .measured = this}),
        period_(period),
        from_epoch_(from_epoch),
        mean_(make_mean(crew, Purpose::weights)),
        since_(crew.workers) {}

  void begin(Replica& replica) override { mean_->begin(replica.weights(), replica.parameters()); }
  void update(Replica& replica, const Step& step) override {
    since_ = since_average(step);
    next_ = step.number + 1;
    replica.apply_gradients(step.number);
    averaged_ = averages(step);
    if (averaged_) mean_->run(step, since_);
  }

  void read_model(Replica& replica, Values model) override {
    read_mean(crew_, replica.weights(), model, shares_in_model());
  }
  Flow flow_of_model(int, std::size_t count) const override {
    return flow_of_mean(crew_, count, shares_in_model());
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const auto own = only(rank, crew_.workers);
    if (!averages(step)) return {{{0, count}, own, own}};
    Flow flow{{0, count}, own, {}};
    state_weights(flow, mean_->stated(since_average(step)), crew_.workers);
    return {flow};
  }
  std::vector<Flow> flows_of_memory(std::size_t which, const Step& step, int rank,
                                    std::size_t count) const override {
    if (!averages(step)) return {flow_of_kept_memory(which, count, crew_.workers)};
    return {flow_of_memory(mean_->stated_of_memory(which, rank, since_average(step)),
                           Purpose::weights, count, crew_.workers)};
  }
  bool averages_by_samples() const override { return true; }
  std::uint64_t bytes_sent(const Step& step, int rank, std::size_t count) const override {
    return averages(step) ? mean_->bytes_sent(rank, count) : 0;
  }

  const Figures& figures() override { return mean_->figures(); }
  std::vector<Kept> memories() override { return mean_->memories(); }
  std::string state() const override {
    return with_state(fmt::format("{} {} {}", next_, averaged_ ? 1 : 0, fmt::join(since_, " ")),
                      mean_->state());
  }
  void restore(const std::string& state) override {
    std::istringstream in(state);
    in >> next_ >> averaged_;
    for (std::size_t& samples : since_) in >> samples;
    if (!in) throw UsageError("the saved state of local-sgd is damaged or of other workers");
    mean_->restore(state_behind(in));
  }

 private:
  // What each worker counts for in the model, in a round; else all have the same.
  std::vector<double> shares_in_model() const {
    return averaged_ ? std::vector<double>(crew_.workers, 1) : shares_of(since_);
  }

  bool averages(const Step& step) const {
    return step.epoch < from_epoch_ || (step.number + 1) % period_ == 0;
  }

  // Samples of each worker since the last average, those of this step among them.
  std::vector<std::size_t> since_average(const Step& step) const {
    if (step.number < next_) return since_;
    std::vector<std::size_t> since(step.samples.begin(), step.samples.end());
    if (!averaged_)
      std::transform(since.begin(), since.end(), since_.begin(), since.begin(), std::plus<>());
    return since;
  }

  const std::uint64_t period_;
  const int from_epoch_;
  const std::unique_ptr<Mean> mean_;
  // As the last step left them: kept until the next, for flows() of the step just taken.
  std::uint64_t next_ = 0;
  bool averaged_ = true;
  std::vector<std::size_t> since_;
};

}  // namespace

StrategyMaker local_sgd(const Options& options) {
  const std::int64_t period = at_least(1, options, "period");
  const std::int64_t from = at_least(0, options, "from_epoch");
  return {.make =
              [=](const Crew& crew) {
                return std::make_unique<LocalSgd>(crew, period, static_cast<int>(from));
              },
          .notice = exchanges_first_after(options, "period", from > 0 ? 1 : period),
          .travels = Travels::mean_of_weights};
}

}  // namespace lockstep
