// Hogwild (Niu, Recht, Ré and Wright: Hogwild!: a lock-free approach to parallelizing stochastic
// gradient descent, 2011). All workers of a host share one vector of weights and change it without
// locks. A worker computes on a copy, since the weights must not change between forward and
// backward, steps that with its own optimiser, adds what the step changed to the shared vector, and
// goes on with a copy of what is there then.
//
// `updates=atomic`: each addition is one atomic operation on a number, and none is lost.
// `updates=plain`: load, add, store, as in the paper, which may lose some. Nothing is sent. The
// shared vector is the model.
#include <algorithm>
#include <atomic>

#include "collectives/scratch.h"
#include "strategies/registry.h"
#include "transport/channels.h"
#include "transport/patient.h"

namespace lockstep {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr Tag kRest = channels::kHogwildRest;
// Ahead of the weights, in a cache line of its own: how many updates there were.
constexpr std::size_t kCounterBytes = 64;

class Hogwild final : public Strategy, public Apart, public Measured {
 public:
  Hogwild(const Crew& crew, bool atomic)
      : Strategy(crew, {.apart = this, .measured = this}), atomic_(atomic) {}

  void begin(Replica& replica) override {
    Transport& peers = crew_.rank.peers;
    for (int w = 0; w < crew_.workers; ++w)
      if (peers.host_of(w) != peers.host_of(0))
        refuse(fmt::format("worker {} is on another host than worker 0", w));
    const Values weights = replica.weights();
    before_.emplace(weights, weights.count());
    if (weights.is_hollow()) return;
    window_ = peers.open_window(peers.rank() == 0 ? kCounterBytes + weights.bytes().size : 1);
    if (!window_->reaches_all()) refuse("these workers have none in common");
    const Bytes all = window_->of(0);
    updates_ = reinterpret_cast<std::uint64_t*>(all.data);
    shared_ = reinterpret_cast<float*>(all.data + kCounterBytes);
    if (peers.rank() == 0) copy(all.part(kCounterBytes, weights.bytes().size), weights.bytes());
    window_->meet({});
  }

  void update(Replica& replica, const Step& step) override {
    resting_ = false;
    const Values weights = replica.weights(), before = before_->values();
    if (!has_samples(step)) {
      if (shared_) read(numbers(weights));
      return;
    }
    copy(before.bytes(), weights.bytes());
    replica.apply_gradients(step.number, own_share(step));
    if (!shared_) return figures_.contributions.add(crew_.rank.rank(), 1, 0);
    const std::uint64_t earlier = std::atomic_ref(*updates_).fetch_add(1, kRelaxed);
    figures_.contributions.add(crew_.rank.rank(), 1, earlier - seen_);
    add(numbers(before), numbers(weights));
    read(numbers(weights));
  }

  // Nobody goes on, or away with the memory, before all have read what it came to.
  void rest(Replica& replica) override {
    meet();
    if (shared_) read(numbers(replica.weights()));
    copy(before_->values().bytes(), replica.weights().bytes());
    resting_ = true;
    meet();
  }

  bool fetch_model(Values model) override {
    if (resting_)
      copy(model.bytes(), before_->values().bytes());
    else if (shared_)
      load(numbers(model));
    return true;
  }

 private:
  static std::span<float> numbers(Values values) {
    return {reinterpret_cast<float*>(values.bytes().data), values.count()};
  }

  // w += after - before. Where w is still what `before` was read from, that is `after` itself,
  // without rounding twice.
  void add(std::span<const float> before, std::span<const float> after) const {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::atomic_ref<float> w(shared_[i]);
      const float delta = after[i] - before[i];
      float found = before[i], changed = after[i];
      if (!atomic_) {
        found = w.load(kRelaxed);
        w.store(found == before[i] ? after[i] : found + delta, kRelaxed);
        continue;
      }
      while (!w.compare_exchange_weak(found, changed, kRelaxed)) changed = found + delta;
    }
  }

  void load(std::span<float> into) const {
    for (std::size_t i = 0; i < into.size(); ++i)
      into[i] = std::atomic_ref<float>(shared_[i]).load(kRelaxed);
  }
  void read(std::span<float> into) {
    seen_ = std::atomic_ref(*updates_).load(kRelaxed);
    load(into);
  }

  void meet() const { meet_while_they_live(crew_.rank.peers, kRest, crew_.workers); }

  [[noreturn]] static void refuse(const std::string& why) {
    throw UsageError(fmt::format(
        "'hogwild' shares one memory, and {}: give it workers of one host (ranks_per_host "
        "of a cluster), without --shape and --transport ucx",
        why));
  }

  const bool atomic_;
  std::unique_ptr<Window> window_;
  std::uint64_t* updates_ = nullptr;  // in worker 0's window, as are
  float* shared_ = nullptr;           // the weights; none where they are hollow
  std::uint64_t seen_ = 0;            // updates before the last read
  // The weights before a step; at rest, what the model came to.
  std::optional<Scratch> before_;
  bool resting_ = false;
};

void refuse_run(const RunTerms& run) {
  const auto refuse = [](bool given, const char* flag, const char* why) {
    if (given) throw UsageError(fmt::format("{} does not work with hogwild: {}", flag, why));
  };
  refuse(run.audit, "--audit",
         "its workers write to one memory, so there are no exchanges to prove; leave --audit out");
  refuse(run.transport == "ucx", "--transport ucx", "its workers share memory; use shm");
  refuse(run.recorded, "--record or --replay",
         "its workers write to one memory in an order that nobody sees");
  refuse(run.shaped, "--shape", "its workers send nothing that could be slowed down");
}

}  // namespace

StrategyMaker hogwild(const Options& options) {
  constexpr std::string_view updates[] = {"atomic", "plain"};
  const bool atomic = options.choice("updates", updates) == 0;
  return {.make = [=](const Crew& crew) { return std::make_unique<Hogwild>(crew, atomic); },
          .refuse = refuse_run};
}

}  // namespace lockstep
