// Stale synchronous parallel (Ho et al.: More effective distributed ML via a stale synchronous
// parallel parameter server, 2013). A worker's clock c counts the steps it has completed. It may
// start step c if no worker's clock is below c - s: what it then reads holds all updates of steps
// up to c - s - 1 from everybody, all of its own, and perhaps newer ones of others.
//
// A worker steps its own replica with its own optimiser and pushes what that changed; servers add
// it up. Its replica is its cache, which its own updates are in (read-my-writes). With every push
// goes a question for newer weights, ahead of need: the one of clock c is answered when the lowest
// clock is what step c + l needs, c + l - s at least, and waited for before that step, where l is
// the lead. So neither stops a worker unless somebody is too slow, or the way to the servers and
// back takes more than l steps. Whatever has come by then is used. A worker that rests or is gone
// bounds nobody.
//
// One question a step, whatever the others do: a worker that is s ahead has to read in every step
// anyway, and asking seldom would save bytes at the slowest alone, and make their number a matter
// of chance. Copies are fresher, too (Dai et al.: High-performance distributed ML at scale through
// parameter server consistency models, 2015).
//
// A worker sends 4N bytes a step and is sent 4N.
#include <algorithm>
#include <limits>
#include <utility>

#include "strategies/central.h"
#include "strategies/central_stream.h"
#include "strategies/parameters.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// Each further step of it costs a worker memory for N numbers.
constexpr std::uint64_t kMostLead = 3;

class Ssp final : public Central {
 public:
  Ssp(const Crew& crew, std::uint64_t s)
      : Central(crew, Talks::beside), s_(s), lead_(std::min(s, kMostLead)), clocks_(crew.workers) {}
  ~Ssp() override {
    if (stream_) stream_->abandon();
  }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    const Values weights = replica.weights();
    if (!stream_) stream_ = std::make_shared<CentralStream>(crew_, weights, proof_);
    // Where all have met, caches are up to date.
    if (std::exchange(met_, false)) stream_->meet(step.number);
    const Values change = stream_->change();
    copy(change.bytes(), weights.bytes());
    // Without samples the change is none, and only tells that this worker is there.
    if (has_samples(step)) replica.apply_gradients(step.number, own_share(step));
    subtract_from(weights, change);
    book_.owes_change();
    auto pushed = encode(change, false);
    book_.pushed(proof_.of(change));

    const std::uint64_t needed = step.number + 1 + lead_;
    stream_->send(std::move(pushed), count_push(), step.number, needed - std::min(needed, s_));
    was_held_back(stream_->await(lead_));
    take_news(weights);
  }

  void rest(Replica& replica) override {
    if (stream_) stream_->settle();
    Central::rest(replica);
    copy(replica.weights().bytes(), at_rest().bytes());
    book_.becomes({{1, pulled()}});
    met_ = true;
  }

  bool fetch_model(Values model) override {
    if (met_ || !stream_) return Central::fetch_model(model);
    stream_->fetch(model);
    return true;
  }

  const Figures& figures() override {
    Central::figures();
    if (stream_) figures_.hidden_s += stream_->hidden_s();
    return figures_;
  }

 private:
  void take_news(Values weights) {
    std::vector<Term> mix;
    if (!stream_->take(weights, mix)) return;
    book_.arrived();
    book_.takes(std::move(mix));
  }

  // On servers.
  void start(std::uint64_t first) override {
    for (std::uint64_t& clock : clocks_)
      if (clock != kGone) clock = first;
  }

  bool apply(Replica& replica, const Push& push) override {
    const std::uint64_t age = push.step - push.stamp;
    if (proof_.on() && age > s_)
      proof_.fail(
          fmt::format("worker {} took step {} from weights that were {} steps old, where "
                      "the staleness is {}",
                      push.worker, push.step, age, s_));
    add(replica, push);
    figures_.contributions.add(push.worker, 1, age);
    clocks_[push.worker] = push.step + 1;
    return true;
  }

  bool may_read(int, std::uint64_t oldest) const override { return clock() >= oldest; }
  bool gives_turns() const override { return false; }
  std::uint64_t clock() const override { return std::ranges::min(clocks_); }

  bool rests(Replica&, int worker) override {
    clocks_[worker] = kNever;
    return false;
  }
  void gone(Replica&, int worker, const TransportError&) override { clocks_[worker] = kGone; }

  static constexpr std::uint64_t kGone = kNever - 1;  // bounds nobody either, and stays

  const std::uint64_t s_, lead_;
  // On workers.
  std::shared_ptr<CentralStream> stream_;
  bool met_ = true;  // since the last step
  // On servers, by worker: steps completed.
  std::vector<std::uint64_t> clocks_;
};

}  // namespace

StrategyMaker ssp(const Options& options) {
  const std::int64_t s = at_least(0, options, "staleness");
  return {.make = [=](const Crew& crew) { return std::make_unique<Ssp>(crew, s); },
          .travels = Travels::pushed_changes};
}

}  // namespace lockstep
