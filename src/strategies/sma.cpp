// SMA, synchronous model averaging with a central average model (Koliousis et al.: CROSSBOW:
// Scaling deep learning with small batch sizes on multi-GPU servers, 2019). k learners with weights
// w_j, a small batch each, and the average model z. In one step, all from the values before it:
//
//   c_j = alpha (w_j - z)
//   w_j = w_j - eta g_j - c_j
//   z   = z + sum_j c_j + mu (z - z_prev)
//
// z is the model that is trained. Every rank is a learner and has its own copy of z; `learners`
// ranks in a row share a device (see sma_sum.h), the last of which may have fewer. alpha = 0 stands
// for 1/k. mu = 0 is synchronous EASGD that exchanges in every step. Where the learning rate drops,
// all start anew from z. Where batches are uneven learner j's step counts for its samples over the
// learners' mean, so that every sample counts once.
//
// With `auto=on` learners are added to each device while that pays (see sma_tuner.h); a rank that
// is no learner yet holds z, and goes on from there when it becomes one. Until then the learners of
// its device read its samples: a step takes the same samples with any number of learners, and a
// learner's batch shrinks as others come. (In the paper it stays, and a step grows.)
#include "collectives/scratch.h"
#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/sma_sum.h"
#include "strategies/sma_tuner.h"

namespace lockstep {
namespace {

// A schedule that glides down is no drop: with a restart in every step z would never move.
constexpr double kDrop = 0.5;

class Sma final : public Strategy, public Statement, public Pooling {
 public:
  Sma(const Crew& crew, int learners, double alpha, double mu, bool searches)
      : Strategy(crew, {.statement = this, .pooling = this}),
        learners_(learners),
        alpha_(alpha),
        mu_(mu),
        sum_(crew, learners),
        tuner_(crew, learners, searches) {}

  void begin(Replica& replica) override {
    const Values weights = replica.weights();
    replica_ = &replica;
    for (auto* memory : {&z_, &z_prev_, &c_})
      copy(memory->emplace(weights, weights.count()).values().bytes(), weights.bytes());
  }

  bool trains(const Step& step) const override { return is_learner(crew_.rank.rank(), step); }
  // Where not all ranks of a device learn, those that do read the samples of all.
  Team team_of(const Step& step, int worker) const override {
    const Team device{worker - worker % learners_, sum_.learners_beside(worker, learners_),
                      sum_.learners_beside(worker, tuner_.learners(step))};
    return device.readers < device.size ? device : Team{worker};
  }

  void update(Replica& replica, const Step& step) override {
    const Values w = replica.weights(), z = z_->values(), c = c_->values();
    copy(c.bytes(), trains(step) ? w.bytes() : z.bytes());
    add_scaled(c, -1, z);
    scale(c, alpha(step));
    if (trains(step)) {
      const double share = share_of(crew_.rank.rank(), step);
      replica.apply_gradients(step.number, share);
      add_scaled(w, -1, c);
    }
    const Values sum = replica.gradients();  // free by now, and where peers see it
    copy(sum.bytes(), c.bytes());
    sum_.run(tag_of(Purpose::weights, step), sum, tuner_.learners(step));
    move_centre(sum);
    if (restarts(step)) copy(z_prev_->values().bytes(), z.bytes());
    if (restarts(step) || !trains(step)) copy(w.bytes(), z.bytes());
    tuner_.stepped(step);
  }

  // Whoever learns has a say in the statistics of batch norm that go with z.
  double mass() const override {
    return crew_.rank.rank() % learners_ < tuner_.learners_now() ? 1 : 0;
  }
  void read_model(Replica&, Values model) override { copy(model.bytes(), z_->values().bytes()); }
  Flow flow_of_model(int, std::size_t count) const override {
    return {{0, count}, {}, std::vector<double>(crew_.workers), {}, {1, 0}};
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const auto own = only(rank, crew_.workers);
    const bool learns = is_learner(rank, step);
    Flow flow = flow_of_centre(step, count);
    if (learns && !restarts(step)) {
      flow = {{0, count}, {}, own, own, {alpha(step), 0}};
      for (double& before : flow.before) before *= -alpha(step);
    }
    if (learns) {
      flow.gradients = own;
      flow.gradients[rank] = share_of(rank, step);
    }
    return {flow};
  }
  std::vector<Flow> flows_of_memory(std::size_t which, const Step& step, int,
                                    std::size_t count) const override {
    if (which == 0 || restarts(step)) return {flow_of_centre(step, count)};
    return {{{0, count}, {}, std::vector<double>(crew_.workers), {}, {1, 0}}};
  }

  std::uint64_t bytes_sent(const Step& step, int rank, std::size_t count) const override {
    return sum_.bytes(rank, count, tuner_.learners(step));
  }

  std::vector<Kept> memories() override {
    if (!z_) return {};
    return {{"z", z_->values(), true}, {"z_prev", z_prev_->values(), true}};
  }
  std::string state() const override { return tuner_.state(); }
  void restore(const std::string& state) override { tuner_.restore(state); }

 private:
  bool is_learner(int rank, const Step& step) const {
    return rank % learners_ < tuner_.learners(step);
  }
  // What a learner's gradient counts for. REQUIRES: it is one.
  double share_of(int rank, const Step& step) const {
    std::vector<std::size_t> samples;  // of learners
    std::size_t place = 0;
    for (int j = 0; j < crew_.workers; ++j) {
      if (!is_learner(j, step)) continue;
      if (j == rank) place = samples.size();
      samples.push_back(step.samples[j]);
    }
    return shares_of(samples)[place];
  }
  // k
  int all_learners(const Step& step) const {
    int k = 0;
    for (int first = 0; first < crew_.workers; first += learners_)
      k += sum_.learners_beside(first, tuner_.learners(step));
    return k;
  }
  double alpha(const Step& step) const { return alpha_ != 0 ? alpha_ : 1.0 / all_learners(step); }
  // Is the next step's learning rate a drop?
  bool restarts(const Step& step) const {
    const double now = replica_->learning_rate(step.number);
    return now > 0 && replica_->learning_rate(step.number + 1) <= kDrop * now;
  }

  // z, z_prev = z + sum + mu (z - z_prev), z
  void move_centre(Values sum) {
    const Values z = z_->values(), z_prev = z_prev_->values();
    scale(z_prev, -1);
    add_scaled(z_prev, 1, z);
    add_scaled(sum, mu_, z_prev);
    copy(z_prev.bytes(), z.bytes());
    add_scaled(z, 1, sum);
  }
  Flow flow_of_centre(const Step& step, std::size_t count) const {
    Flow flow{{0, count}, {}, std::vector<double>(crew_.workers)};
    flow.before.resize(crew_.workers);
    for (int j = 0; j < crew_.workers; ++j)
      if (is_learner(j, step)) flow.before[j] = alpha(step);
    flow.memory = {1 - all_learners(step) * alpha(step) + mu_, -mu_};
    return flow;
  }

  const int learners_;  // at most, on a device
  const double alpha_, mu_;
  const Replica* replica_ = nullptr;  // for the learning rate
  std::optional<Scratch> z_, z_prev_, c_;
  SmaSum sum_;
  SmaTuner tuner_;
};

}  // namespace

StrategyMaker sma(const Options& options) {
  const std::int64_t learners = at_least(1, options, "learners");
  const double alpha = options.number("alpha"), mu = below_one(options, "momentum");
  const bool searches = options.flag("auto");
  if (searches && learners == 1)
    throw UsageError("auto of 'sma' is on with learners=1: say how many a device may have at most");
  if (!(alpha >= 0 && alpha <= 1))
    throw UsageError(fmt::format("alpha of 'sma' is {}: from 0 (for 1/k) to 1", alpha));
  return {[=](const Crew& crew) {
    return std::make_unique<Sma>(crew, static_cast<int>(learners), alpha, mu, searches);
  }};
}

}  // namespace lockstep
