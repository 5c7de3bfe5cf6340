// Downpour SGD (Dean et al.: Large scale distributed deep networks, 2012). A worker adds up its
// gradients and, between fetches, steps its own replica with them. Every `push` steps it pushes the
// sum to the servers, which step with it at once (the paper's Adagrad: `--optimizer adagrad`);
// every `fetch` steps it fetches their weights, which replace its own. Shards are independent of
// each other.
//
// Neither stops the worker: they are under way while the next gradient is computed. What a fetch
// brings lands beside the weights, and takes their place when that gradient is there, before it is
// applied. So the step taken meanwhile is not lost, and one worker with push = fetch = 1 is SGD, to
// the bit.
//
// A worker sends 4N bytes every `push` steps and is sent 4N every `fetch`. One that has had no
// samples since it last did either stays away. When the run is over it pushes what is left of its
// sum, so that every gradient has reached the model; at a checkpoint it keeps it.
#include <cstring>
#include <sstream>

#include "strategies/parameters.h"
#include "strategies/registry.h"
#include "strategies/servers/central.h"

namespace lockstep {
namespace {

class Downpour final : public Central {
 public:
  Downpour(const Crew& crew, std::uint64_t push, std::uint64_t fetch)
      : Central(crew, Talks::beside), push_(push), fetch_(fetch) {}

  void begin(Replica& replica) override {
    Central::begin(replica);
    if (!crew_.works()) return;
    const Values weights = replica.weights();
    const Bytes sum = sum_.emplace(weights, weights.count()).values().bytes();
    // Checkpoints keep it, also of a worker that has had no samples.
    if (sum.data) std::memset(sum.data, 0, sum.size);
  }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    take_fetched(replica);
    if (has_samples(step)) {
      add_to_sum(replica.gradients(), own_share(step));
      replica.apply_gradients(step.number);
      has_news_ = true;
    }
    if ((step.number + 1) % push_ == 0 && has_sum_) push_sum(step.number);
    if ((step.number + 1) % fetch_ == 0 && has_news_) fetch(replica, step);
    if (has_sum_) book_.still_owes(proof_.of(sum_->values()));
  }

  void hand_over(Replica&, std::uint64_t taken) override {
    if (has_sum_) push_sum(taken - 1);
  }
  void rest(Replica& replica) override {
    take_fetched(replica);
    Central::rest(replica);
    if (has_sum_) book_.still_owes(proof_.of(sum_->values()));
  }

  std::vector<Kept> memories() override {
    std::vector<Kept> all = Central::memories();
    if (sum_) all.push_back({"accumulated", sum_->values()});
    return all;
  }
  std::string state() const override {
    if (!crew_.works()) return Central::state();
    return with_state(fmt::format("{:d} {:d}", has_sum_, has_news_), Central::state());
  }
  void restore(const std::string& state) override {
    if (!crew_.works()) return Central::restore(state);
    std::istringstream text(state);
    if (!(text >> has_sum_ >> has_news_))
      throw UsageError("the saved state of downpour is damaged");
    Central::restore(state_behind(text));
    if (has_sum_) book_.owes({{1, proof_.of(sum_->values())}});
  }

 private:
  void add_to_sum(Values gradients, double share) {
    const Values sum = sum_->values();
    book_.owes({{share, proof_.of(gradients)}});
    if (share != 1) scale(gradients, share);
    if (has_sum_)
      combine(sum, gradients.bytes());
    else
      copy(sum.bytes(), gradients.bytes());
    has_sum_ = true;
  }
  // A copy, so that the next sum can begin.
  void push_sum(std::uint64_t step) {
    const Values sum = sum_->values();
    finish(pushing_);
    if (!pushed_) pushed_ = std::make_shared<Scratch>(sum, sum.count());
    copy(pushed_->values().bytes(), sum.bytes());
    pushing_ = start_push({step, 0, {}}, pushed_);
    has_sum_ = false;
  }
  void fetch(Replica& replica, const Step& step) {
    const Values weights = replica.weights();
    if (!fetched_) fetched_ = std::make_shared<Scratch>(weights, weights.count());
    fetching_ = start_pull(step, fetched_);
    has_news_ = false;
  }
  void take_fetched(Replica& replica) {
    if (!fetching_.answer) return;
    finish(fetching_);
    copy(replica.weights().bytes(), fetched_->values().bytes());
    book_.takes(pulled());
  }

  // On servers.
  bool steps() const override { return true; }
  bool apply(Replica& replica, const Push& push) override {
    step_with(replica, push);
    figures_.contributions.add(push.worker, 1, push.staleness);
    return true;
  }
  bool reads_at_rest() const override { return false; }  // only what it fetches

  const std::uint64_t push_, fetch_;
  std::optional<Scratch> sum_;  // of the gradients since the last push,
  bool has_sum_ = false;        // if there were any
  bool has_news_ = false;       // samples since the last fetch
  // What is under way.
  std::shared_ptr<Scratch> pushed_, fetched_;
  Talk pushing_, fetching_;
};

}  // namespace

StrategyMaker downpour(const Options& options) {
  const std::int64_t push = at_least(1, options, "push"), fetch = at_least(1, options, "fetch");
  return {.make = [=](const Crew& crew) { return std::make_unique<Downpour>(crew, push, fetch); },
          .notice = exchanges_first_after(options, "push", push, "push nothing before it is over"),
          .travels = Travels::pushed_sums};
}

}  // namespace lockstep
