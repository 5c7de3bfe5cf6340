// Stale synchronous parallel (Ho et al.: More effective distributed ML via a stale synchronous
// parallel parameter server, 2013). A worker's clock c counts the steps it has completed. It may
// start step c if no worker's clock is below c - s: what it then reads holds all updates of steps
// up to c - s - 1 from everybody, all of its own, and perhaps newer ones of others.
//
// A worker steps its own replica with its own optimiser and pushes what that changed; servers add
// it up. Its replica is its cache, which its own updates are in (read-my-writes). A read is local
// while the cache's stamp, the lowest clock when it was pulled, is at least c - s; else the worker
// pulls, and the server answers once the lowest clock is. A worker that rests or is gone bounds
// nobody.
//
// A push travels while the worker takes its next step: it is waited for when the one after it is
// due, so two are under way at most.
//
// A worker sends 4N bytes a step and is sent between 4N/(s+1) and 4N.
#include <algorithm>
#include <limits>

#include "strategies/central.h"
#include "strategies/ranges.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

class Ssp final : public Central {
 public:
  Ssp(const Crew& crew, std::uint64_t s)
      : Central(crew, Talks::beside), s_(s), clocks_(crew.workers), lags_(crew.workers) {}

  void update(Replica& replica, const Step& step) override {
    const Values weights = replica.weights();
    std::swap(under_way_, last_);
    finish(under_way_.push);  // the one before the last: its memory is free again
    if (!under_way_.delta) under_way_.delta = std::make_shared<Scratch>(weights, weights.count());
    const Values delta = under_way_.delta->values();
    copy(delta.bytes(), weights.bytes());
    // Without samples the change is none, and only tells that this worker is there.
    if (step.samples[crew_.rank.rank()] > 0) replica.apply_gradients(step.number);
    subtract_from(weights, delta);
    book_.owes_change();

    // Where all have met, caches are up to date.
    if (!stamp_) stamp_ = step.number;
    const std::uint64_t c = step.number + 1;
    if (*stamp_ + s_ >= c) {
      under_way_.push = start_push(step, under_way_.delta);
      return;
    }
    // All of this worker's earlier pushes are in the answer, since a server hears a worker in the
    // order in which it speaks: so the cache is overwritten, and no own update is lost or doubled.
    stamp_ = push_and_pull(step, delta, weights);
    book_.takes(pulled());
  }

  void rest(Replica& replica) override {
    Central::rest(replica);
    copy(replica.weights().bytes(), at_rest().bytes());
    book_.becomes({{1, pulled()}});
    stamp_.reset();
  }

 private:
  // On servers.
  void start(std::uint64_t first) override {
    for (std::uint64_t& clock : clocks_)
      if (clock != kGone) clock = first;
    std::ranges::fill(lags_, 0);
  }

  bool apply(Replica& replica, const Push& push) override {
    add(replica, push);
    contributions_.add(push.worker, 1, lags_[push.worker]);
    clocks_[push.worker] = push.step + 1;
    lags_[push.worker] = push.step + 1 - clock();
    return true;
  }

  bool may_read(int worker) const override { return clock() + s_ >= clocks_[worker]; }
  void reads(int worker) override { lags_[worker] = clocks_[worker] - clock(); }
  std::uint64_t clock() const override { return std::ranges::min(clocks_); }

  bool rests(Replica&, int worker) override {
    clocks_[worker] = kNever;
    return false;
  }
  void gone(Replica&, int worker, const TransportError&) override { clocks_[worker] = kGone; }

  static constexpr std::uint64_t kGone = kNever - 1;  // bounds nobody either, and stays

  const std::uint64_t s_;
  // On workers: how old the replica is at most, and what the last two steps changed.
  struct Change {
    std::shared_ptr<Scratch> delta;
    Talk push;
  };
  std::optional<std::uint64_t> stamp_;
  Change under_way_, last_;
  // On servers, by worker: steps completed, and how many more that was than the slowest's when it
  // started the step it is in.
  std::vector<std::uint64_t> clocks_, lags_;
};

}  // namespace

StrategyMaker ssp(const Options& options) {
  const std::int64_t s = at_least(0, options, "staleness");
  return [=](const Crew& crew) { return std::make_unique<Ssp>(crew, s); };
}

}  // namespace lockstep
