// SMA, synchronous model averaging with a central average model (Koliousis et al.: CROSSBOW:
// Scaling deep learning with small batch sizes on multi-GPU servers, 2019). k learners with weights
// w_j, a small batch each, and the average model z. In one step, all from the values before it:
//
//   c_j = alpha (w_j - z)
//   w_j = w_j - eta g_j - c_j
//   z   = z + sum_j c_j + mu (z - z_prev)
//
// z is the model that is trained. Every rank is a learner and has its own copy of z; `learners`
// ranks in a row share a device (see SmaSum), the last of which may have fewer. alpha = 0 stands
// for 1/k. mu = 0 is synchronous EASGD that exchanges in every step. Where the learning rate drops,
// all start anew from z. Where batches are uneven learner j's step counts for its samples over the
// learners' mean, so that every sample counts once.
//
// With `auto=on` learners are added to each device while that pays (see SmaTuner); a rank that
// is no learner yet holds z, and goes on from there when it becomes one. Until then the learners of
// its device read its samples: a step takes the same samples with any number of learners, and a
// learner's batch shrinks as others come. (In the paper it stays, and a step grows.)
#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>

#include "collectives/broadcast.h"
#include "collectives/scratch.h"
#include "core/topology.h"
#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "transport/channels.h"
#include "transport/group.h"

namespace lockstep {
namespace {

std::vector<int> ranks_in_a_row(int first, int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

// The sum over all learners: each device adds up to its first rank, the first ranks all-reduce
// among themselves, and each hands the total back to its whole device. Between devices goes what
// one learner a device would send.
class SmaSum {
 public:
  // So many consecutive ranks are a device, at most: the last may have fewer.

  SmaSum(const Crew& crew, int most) : crew_(crew), most_(most) {
    if (most == 1) return;
    const int me = crew.rank.rank(), first = me - me % most;
    std::vector<int> firsts;
    for (int r = 0; r < crew.workers; r += most) firsts.push_back(r);
    device_.emplace(crew.rank.peers, ranks_in_a_row(first, learners_beside(me, most)));
    if (me == first) firsts_.emplace(crew.rank.peers, firsts);

    std::vector<int> hosts;  // in order of first appearance
    for (const int r : firsts) {
      const int host = crew.rank.peers.host_of(r);
      const auto known = std::ranges::find(hosts, host);
      place_of_firsts_.host_of.push_back(static_cast<int>(known - hosts.begin()));
      if (known == hosts.end()) hosts.push_back(host);
    }
  }

  // Of that rank's device: its first `learners` ranks, or all it has.
  int learners_beside(int rank, int learners) const {
    return std::min(learners, crew_.workers - (rank - rank % most_));
  }
  // On return all ranks hold the sum over the first `learners` ranks of each device, the same bits.
  // Collective over all ranks.
  void run(Tag tag, Values values, int learners) {
    if (most_ == 1) return crew_.collective.run(crew_.rank.peers, tag, values.as(Op::sum));
    const int place = device_->rank();
    if (place < learners) {
      Group adding(*device_, ranks_in_a_row(0, learners_beside(crew_.rank.rank(), learners)));
      reduce(adding, tag, values.as(Op::sum));
    }
    if (firsts_) between_devices(values).run(*firsts_, tag, values.as(Op::sum));
    broadcast(*device_, tag, values.as(Op::sum));
  }

  // Bytes that `rank` sends in that, of values that lie like these.
  std::uint64_t bytes(int rank, Values values, int learners) const {
    if (most_ == 1) return average_bytes(crew_, rank, values);
    const std::size_t count = values.count();
    const int place = rank % most_;
    const std::size_t up = place == 0
                               ? between_devices(values).sent(count, place_of_firsts_, rank / most_)
                               : (place < learners ? count : 0);
    const std::size_t down =
        count * binomial_tree(place, learners_beside(rank, most_)).children.size();
    return (up + down) * size_of(values.type());
  }

 private:
  // By what the first learners exchange. Their values are in no window of theirs alone;
  // round-robin gives the bits of `shared` anywhere.
  const AllReduceRow& between_devices(Values values) const {
    const AllReduceRow& own = collective_for(crew_, values);
    return own.name == "shared" ? all_reduce_named("round-robin") : own;
  }

  const Crew crew_;
  const int most_;
  std::optional<Group> device_;  // of this rank
  std::optional<Group> firsts_;  // if this rank is one of them
  Place place_of_firsts_;
};
constexpr Tag kDecision = channels::kSmaDecision;

// How many learners a device can feed, found while training (Koliousis et al. 2019, section 4.4):
// one more as long as the samples a second grow by more than a twentieth; when they don't, one
// less, and that is it. A step's time is the median of an interval's: machines have hiccups.
class SmaTuner {
 public:
  static constexpr std::uint64_t kInterval = 16;  // steps between two looks
  static constexpr double kGain = 1.05;

  // From one learner a device up to `most`; without `searches` always that many.
  SmaTuner(const Crew& crew, int most, bool searches)
      : crew_(crew),
        most_(most),
        learners_(searches ? 1 : most),
        last_(learners_),
        settled_(!searches || most == 1) {}

  // In that step, the one about to be taken or just taken.
  int learners(const Step& step) const { return step.number < next_ ? last_ : learners_; }
  // In the step just taken, or before the first.
  int learners_now() const { return last_; }
  // That step is done. Collective over the workers where a decision is due.
  void stepped(const Step& step) {
    if (!settled_) measure(step);
    last_ = learners_;
    next_ = step.number + 1;
    if (settled_ || next_ % kInterval != 0) return;
    std::int64_t decision[2] = {};  // learners, and whether that is it
    if (crew_.rank.rank() == 0) {
      decision[0] = decide();
      decision[1] = settled_;
    }
    broadcast(crew_.rank.peers, kDecision, {decision, 2, Type::int64});
    learners_ = static_cast<int>(decision[0]);
    settled_ = decision[1] != 0;
  }

  std::string state() const {
    return fmt::format("{} {} {} {} {}", learners_, last_, settled_ ? 1 : 0, next_, best_);
  }
  void restore(const std::string& state) {
    std::istringstream in(state);
    if (!(in >> learners_ >> last_ >> settled_ >> next_ >> best_) || learners_ < 1 ||
        learners_ > most_)
      throw UsageError("the saved state of sma is damaged or of other learners");
  }

 private:
  void measure(const Step& step) {
    if (crew_.rank.rank() != 0) return;
    const double now = crew_.rank.clock.now();
    if (stepped_at_s_) {
      step_s_.push_back(now - *stepped_at_s_);
      for (int w = 0; w < crew_.workers; ++w)
        if (w % most_ < learners_) samples_ += step.samples[w];
    }
    stepped_at_s_ = now;
  }

  int decide() {
    if (step_s_.size() < kInterval / 4) return learners_;  // resumed just now
    const auto middle = step_s_.begin() + static_cast<std::ptrdiff_t>(step_s_.size() / 2);
    std::ranges::nth_element(step_s_, middle);
    const double rate = static_cast<double>(samples_) / static_cast<double>(step_s_.size()) /
                        std::max(*middle, 1e-9);
    step_s_.clear();
    samples_ = 0;
    const bool gained = rate > kGain * best_;
    best_ = rate;
    settled_ = !gained || learners_ == most_;
    if (!gained) return std::max(1, learners_ - 1);
    return settled_ ? learners_ : learners_ + 1;
  }

  const Crew crew_;
  const int most_;
  int learners_, last_;  // in the next step, and in the one before
  bool settled_;
  std::uint64_t next_ = 0;
  double best_ = 0;  // samples a second with one learner less
  // Rank 0's. Before the first step is over there is nothing to measure.
  std::optional<double> stepped_at_s_;
  std::vector<double> step_s_;  // since the last decision
  std::size_t samples_ = 0;     // of those steps
};

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
    summed_ = replica.gradients();
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
    const bool known = summed_ && summed_->count() == count;
    return sum_.bytes(rank, known ? *summed_ : Values::hollow(count, Type::fp32),
                      tuner_.learners(step));
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
  std::optional<Values> summed_;  // where sums are made
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
