// Elastic averaging SGD (Zhang, Choromanska and LeCun: Deep learning with elastic averaging SGD,
// 2015). Every worker has weights x of its own and explores; a centre z, at the servers, is tied to
// them by springs of strength a = beta / m. Every `period` steps a worker fetches z and
//
//   d = a (x - z),   x' = x - eta g(x) - d,   z' = z + d
//
// with d from x before its step, and the same d on both sides, so that an exchange moves x and z
// towards each other and leaves their sum alone. `mode=async`: each worker comes when it does.
// `mode=sync`: all of a round start from the same z, z' = z + a sum_i (x_i - z), added in the order
// of ranks; there a worker that is gone stops all. With `momentum` delta it is EAMSGD:
//
//   v' = delta v - eta g(x + delta v),   x' = x + v' - d
//
// and the replica holds x + delta v, where the gradient is taken; the optimiser's own rule is then
// not used. The model is z. A worker sends and is sent 4N bytes every `period` steps. One that has
// had no samples since it last met the centre does not step and does not pull: it stays away, or,
// with `mode=sync`, where all are waited for, brings zeros.
#include <cstring>
#include <sstream>

#include "strategies/add_scaled.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/servers/central.h"

namespace lockstep {
namespace {

struct EasgdParameters {
  std::uint64_t period;
  double beta, momentum;
  bool sync;
};

class Easgd final : public Central {
 public:
  Easgd(const Crew& crew, const EasgdParameters& parameters)
      : Central(crew, Talks::here),
        p_(parameters),
        a_(p_.beta / crew.workers),
        round_(crew.workers) {}

  void begin(Replica& replica) override {
    Central::begin(replica);
    if (p_.momentum == 0 || !crew_.works()) return;
    const Values weights = replica.weights();
    x_.emplace(weights, weights.count());
    v_.emplace(weights, weights.count());
    copy(x_->values().bytes(), weights.bytes());
    const Bytes v = v_->values().bytes();
    if (v.data) std::memset(v.data, 0, v.size);
  }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    const Values x = p_.momentum > 0 ? x_->values() : replica.weights();
    const bool learns = has_samples(step);
    has_news_ |= learns;
    const bool meets = (step.number + 1) % p_.period == 0 && (has_news_ || p_.sync);
    if (meets) take_difference(step, x);
    if (learns && p_.momentum > 0)
      step_ahead(replica, step, x);
    else if (learns)
      replica.apply_gradients(step.number, own_share(step));
    if (meets) give_difference(step, x);
    if (p_.momentum > 0) look_ahead(replica.weights(), x);
  }
  void serve(Replica& replica, const StepAt& step_at, std::uint64_t first,
             std::uint64_t end) override {
    step_at_ = &step_at;
    Central::serve(replica, step_at, first, end);
  }
  // With momentum the rule is its own.
  bool steps_own_weights() const override { return p_.momentum == 0; }

  std::vector<Kept> memories() override {
    std::vector<Kept> all = Central::memories();
    if (x_) all.insert(all.end(), {{"x", x_->values(), true}, {"v", v_->values()}});
    return all;
  }
  std::string state() const override {
    if (!crew_.works()) return Central::state();
    return with_state(std::to_string(int{has_news_}), Central::state());
  }
  void restore(const std::string& state) override {
    if (!crew_.works()) return Central::restore(state);
    std::istringstream text(state);
    if (!(text >> has_news_)) throw UsageError("the saved state of easgd is damaged");
    Central::restore(state_behind(text));
  }

 private:
  // d = a (x - z), or nothing where this worker has learnt nothing
  void take_difference(const Step& step, Values x) {
    if (!d_) d_.emplace(x, x.count());
    const Values d = d_->values();
    pull(step, d);
    x_met_ = proof_.of(x);
    subtract_from(x, d);
    pull_ = has_news_ ? a_ : 0;
    has_news_ = false;
    scale(d, pull_);
    proof_.expect("elastic difference", d, {{pull_, x_met_}, {-pull_, pulled()}});
    book_.owes({{pull_, x_met_}, {-pull_, pulled()}});
  }
  // x -= d here, z += d there
  void give_difference(const Step& step, Values x) {
    const Values d = d_->values();
    const Projection before = proof_.of(x);
    add_scaled(x, -1, d);
    proof_.expect("weights drawn to the centre", x,
                  {{1, before}, {-pull_, x_met_}, {pull_, pulled()}});
    book_.adds({{-pull_, x_met_}, {pull_, pulled()}});
    push(step, d);
  }

  // v = delta v - eta g, x += v
  void step_ahead(Replica& replica, const Step& step, Values x) {
    const Values g = replica.gradients(), v = v_->values();
    const double rate = replica.learning_rate(step.number) * own_share(step);
    const Term was{p_.momentum, proof_.of(v)}, stepped{-rate, proof_.of(g)}, at{1, proof_.of(x)};
    scale(v, p_.momentum);
    scale(g, -rate);
    combine(v, g.bytes());
    combine(x, v.bytes());
    proof_.expect("momentum", v, {was, stepped});
    proof_.expect("weights after the step", x, {at, was, stepped});
  }
  // The replica is at x + delta v.
  void look_ahead(Values weights, Values x) {
    copy(weights.bytes(), v_->values().bytes());
    scale(weights, p_.momentum);
    combine(weights, x.bytes());
    book_.becomes({{1, proof_.of(x)}, {p_.momentum, proof_.of(v_->values())}});
  }

  // On servers.
  bool apply(Replica& replica, const Push& push) override {
    if (p_.sync) {
      round_[push.worker] = push;
      return end_round(replica);
    }
    add(replica, push);
    figures_.contributions.add(push.worker, a_, push.staleness);
    return true;
  }

  // When all that train have given their difference.
  bool end_round(Replica& replica) {
    for (int w = 0; w < crew_.workers; ++w)
      if (!round_[w] && !at_rest_[w]) return false;
    bool any = false;
    for (std::optional<Push>& push : round_) {
      if (!push) continue;
      add(replica, *push);
      if (has_learnt(*push)) figures_.contributions.add(push->worker, a_, 0);
      push.reset();
      any = true;
    }
    return any;
  }
  // With mode=sync: had this worker samples in the round? Else it brought zeros.
  bool has_learnt(const Push& push) const {
    for (std::uint64_t back = 0; back < p_.period; ++back)
      if ((*step_at_)(push.step - back).samples[push.worker] > 0) return true;
    return false;
  }

  void start(std::uint64_t) override { at_rest_.assign(crew_.workers, false); }
  // The next z is that of the next round.
  bool may_read(int worker, std::uint64_t) const override { return !round_[worker]; }
  bool rests(Replica& replica, int worker) override {
    at_rest_[worker] = true;
    return end_round(replica);
  }
  void gone(Replica&, int, const TransportError& e) override {
    if (p_.sync)
      throw TransportError(e.kind(), e.peer(),
                           fmt::format("rank {} is gone, and with mode=sync 'easgd' does not go on "
                                       "without it: {}",
                                       e.peer(), e.what()));
  }

  const EasgdParameters p_;
  const double a_;
  std::optional<Scratch> d_;
  Projection x_met_;              // of x, when the difference was taken,
  double pull_ = 0;               // by this factor
  bool has_news_ = false;         // samples since the last exchange
  std::optional<Scratch> x_, v_;  // of EAMSGD
  // On servers; the last two by worker.
  const StepAt* step_at_ = nullptr;  // while it serves
  std::vector<std::optional<Push>> round_;
  std::vector<bool> at_rest_;
};

}  // namespace

StrategyMaker easgd(const Options& options) {
  constexpr std::string_view modes[] = {"async", "sync"};
  const auto period = static_cast<std::uint64_t>(at_least(1, options, "period"));
  const EasgdParameters p{period, options.number("beta"), below_one(options, "momentum"),
                          options.choice("mode", modes) == 1};
  if (!(p.beta >= 0 && p.beta <= 1))
    throw UsageError(fmt::format("beta of 'easgd' is {}: from 0 to 1", p.beta));
  return {.make = [=](const Crew& crew) { return std::make_unique<Easgd>(crew, p); },
          .refuse =
              [=](const RunTerms& run) {
                if (p.momentum > 0 && !run.plain_sgd)
                  throw UsageError(fmt::format(
                      "--optimizer {} does not work with easgd:momentum=…: EAMSGD has a rule of "
                      "its own, which takes the learning rate alone; give sgd without weight decay",
                      run.optimizer));
              },
          .notice = exchanges_first_after(options, "period", period),
          .travels = Travels::pushed_distances};
}

}  // namespace lockstep
