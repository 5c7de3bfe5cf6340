// Asynchronous parameter server (Li et al.: Scaling distributed machine learning with the parameter
// server, 2014). A worker pushes its gradient; the server steps with it at once, w -= eta g,
// without waiting for others and without a division by their number, and replies with the weights
// it has then; the worker goes on with those.
//
// A gradient is stale by as many updates as the server made since the worker read: m - 1 where all
// are equally fast. Momentum is the server's, shared by all. One worker is SGD, to the bit. A
// worker sends 4N bytes a step and server k answers with 4|s_k|.
//
// Where the run cuts pushes into buckets a push may begin while backward runs (see fed_push.h). The
// server steps when all of it is there.
#include "strategies/registry.h"
#include "strategies/servers/central.h"

namespace lockstep {
namespace {

class Asp final : public Central, public Fed {
 public:
  explicit Asp(const Crew& crew) : Central(crew, crew.push_buckets ? Talks::beside : Talks::here) {
    if (!crew.push_buckets) return;
    feeds_pushes(*crew.push_buckets);
    parts_.fed = this;
  }

  void expect(Replica&, const Step& step) override {
    if (has_samples(step)) open_push(own_share(step));
  }
  void ready(Slice part) override {
    if (fed().feed().is_open()) fed().feed().ready(part);
  }
  bool begins_early() const override { return crew_.push_buckets->overlap; }

  void update(Replica& replica, const Step& step) override {
    leaves_rest();
    // Without samples there is no gradient, and momentum must not move the model once more.
    if (!has_samples(step)) return;
    const double share = own_share(step);
    if (crew_.push_buckets) {
      if (!fed().feed().is_open()) open_push(share);
      finish_push_and_pull(step, replica.weights());
    } else {
      book_.owes({{share, proof_.of(replica.gradients())}});
      if (share != 1) scale(replica.gradients(), share);
      push_and_pull(step, replica.gradients(), replica.weights());
    }
    book_.takes(pulled());
  }

  // All go on with the newest.
  void rest(Replica& replica) override {
    Central::rest(replica);
    copy(replica.weights().bytes(), at_rest().bytes());
    book_.becomes({{1, pulled()}});
  }
  bool steps_own_weights() const override { return false; }  // the servers do

 private:
  bool steps() const override { return true; }
  bool works_in_place() const override { return true; }
  bool apply(Replica& replica, const Push& push) override {
    step_with(replica, push);
    figures_.contributions.add(push.worker, 1, push.staleness);
    return true;
  }
};

}  // namespace

StrategyMaker asp(const Options&) {
  return {.make = [](const Crew& crew) { return std::make_unique<Asp>(crew); },
          .travels = Travels::pushed_gradients};
}

}  // namespace lockstep
