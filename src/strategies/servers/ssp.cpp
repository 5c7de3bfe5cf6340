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
//
// Where the run cuts pushes into buckets a push may begin while backward runs (see fed_push.h).
// What is pushed is what a step changes, so the worker's optimiser steps each bucket as soon as its
// gradient is final: backward has no more need of those weights then, since a gradient is final
// when all that its weights went into has been gone back through. Servers add when all of it is
// there.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/servers/central.h"
#include "strategies/servers/central_stream.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// Each further step of it costs a worker memory for N numbers.
constexpr std::uint64_t kMostLead = 3;

class Ssp final : public Central, public Fed {
 public:
  Ssp(const Crew& crew, std::uint64_t s)
      : Central(crew, Talks::beside), s_(s), lead_(std::min(s, kMostLead)), clocks_(crew.workers) {
    if (!crew.push_buckets) return;
    feed_.emplace(crew.rank.clock, *crew.push_buckets, [this](std::size_t b) { push_part(b); });
    parts_.fed = this;
  }
  ~Ssp() override {
    if (stream_) stream_->abandon();
  }

  void begin(Replica& replica) override {
    Central::begin(replica);
    if (feed_) feed_->begin(replica.parameters());
  }

  void expect(Replica& replica, const Step& step) override {
    if (has_samples(step)) open_parts(replica, step);
  }
  void ready(Slice part) override {
    if (feed_->is_open()) feed_->ready(part);
  }
  bool begins_early() const override { return feed_->overlaps(); }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    const Values weights = replica.weights();
    const std::shared_ptr<const Pushed> pushed =
        feed_ && has_samples(step) ? push_parts(replica, step) : take_step(replica, step);
    book_.owes_change();
    book_.pushed(proof_.of(change_));

    const std::uint64_t needed = step.number + 1 + lead_;
    stream_->send(pushed, number_, step.number, needed - std::min(needed, s_));
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

  std::string state() const override {
    return feed_ && crew_.works() ? feed_->state_with(Central::state()) : Central::state();
  }
  void restore(const std::string& state) override {
    Central::restore(feed_ && crew_.works() ? feed_->restore_from(state) : state);
  }

  bool fetch_model(Values model) override {
    if (met_ || !stream_) return Central::fetch_model(model);
    stream_->fetch(model);
    return true;
  }

  const Figures& figures() override {
    Central::figures();
    if (feed_) figures_.buckets = feed_->figures();
    if (stream_) figures_.hidden_s += stream_->hidden_s();
    return figures_;
  }

 private:
  // A step from these weights is about to be taken.
  void open_step(Values weights, const Step& step) {
    if (!stream_) stream_ = std::make_shared<CentralStream>(crew_, weights, proof_);
    // Where all have met, caches are up to date.
    if (std::exchange(met_, false)) stream_->meet(step.number);
    change_ = stream_->change();
    number_ = count_push();
  }

  // The whole of it at once. Returns what is to be pushed.
  std::shared_ptr<const Pushed> take_step(Replica& replica, const Step& step) {
    const Values weights = replica.weights();
    open_step(weights, step);
    const Values change = change_;
    copy(change.bytes(), weights.bytes());
    // Without samples the change is none, and only tells that this worker is there.
    if (has_samples(step)) replica.apply_gradients(step.number, own_share(step));
    subtract_from(weights, change);
    return encode(change, false);
  }

  // Bucket by bucket, each on its way as soon as it is changed.
  void open_parts(Replica& replica, const Step& step) {
    leaves_rest();
    open_step(replica.weights(), step);
    replica_ = &replica;
    step_ = step.number;
    share_ = own_share(step);
    for (const auto& [count, seconds] : stream_->take_times()) feed_->took(count, seconds);
    const bool changed = feed_->open();
    opening_.write(number_, feed_->buckets(), changed);
    note_memories(&OfMemory::before);
  }
  void push_part(std::size_t bucket) {
    const Slice part = feed_->buckets()[bucket];
    const Values change = change_.part(part), weights = replica_->weights().part(part);
    copy(change.bytes(), weights.bytes());
    replica_->apply_gradients(step_, part, step_, share_);
    subtract_from(weights, change);
    stream_->send_part(encode_part(change, part.begin, change_.count()), part.count,
                       bucket == 0 ? std::optional(opening_) : std::nullopt);
  }
  // Those that have not gone. Returns that nothing is left to be pushed.
  std::shared_ptr<const Pushed> push_parts(Replica& replica, const Step& step) {
    if (!feed_->is_open()) open_parts(replica, step);
    replica_ = &replica;
    feed_->close();
    note_memories(&OfMemory::after);
    return nullptr;
  }

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
          "worker {} took step {} from weights that were {} steps old, where "
          "the staleness is {}",
          push.worker, push.step, age, s_);
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
  std::optional<BucketFeed> feed_;
  // Of the step that is being taken.
  Values change_ = Values::hollow(0, Type::fp32);
  std::uint32_t number_ = 0;  // of its push
  Replica* replica_ = nullptr;
  std::uint64_t step_ = 0;
  double share_ = 1;
  PushOpening opening_;
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
