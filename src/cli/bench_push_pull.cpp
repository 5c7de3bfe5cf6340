#include "cli/bench_push_pull.h"

#include <numeric>
#include <optional>

#include "collectives/barrier.h"
#include "core/names.h"
#include "measure/metered.h"
#include "strategies/registry.h"
#include "transport/channels.h"
#include "transport/group.h"

namespace lockstep::bench {
namespace {

// Servers whose answer holds what the worker has just pushed: others answer with what was there.
constexpr std::string_view kPushing[] = {"parameter-server", "asp"};

// Numbers that are added up: a step is weights += gradients.
class AddingReplica final : public Replica {
 public:
  AddingReplica(Transport& peers, std::size_t bytes)
      : weights_(peers.open_window(bytes)), gradients_(peers.open_window(bytes)) {
    const std::size_t count = weights().count();
    parameters_.push_back({"numbers", {0, count}, {static_cast<std::int64_t>(count)}});
  }

  Values weights() override { return numbers_in(*weights_); }
  Values gradients() override { return numbers_in(*gradients_); }
  std::span<const Parameter> parameters() const override { return parameters_; }
  void apply_gradients(std::uint64_t, Slice part, std::uint64_t, double) override {
    combine(weights().part(part), gradients().part(part).bytes());
  }
  double learning_rate(std::uint64_t) const override { return 1; }
  void forget() override {}

 private:
  static Values numbers_in(const Window& window) {
    const Bytes bytes = window.mine();
    return {bytes.data, bytes.size / size_of(Type::fp32), Type::fp32};
  }

  const std::unique_ptr<Window> weights_, gradients_;
  std::vector<Parameter> parameters_;
};

// A strategy with servers, which sees the rank, its numbers and its messages as in a training. They
// are metered as there, too.
class StrategyPushPull final : public PushPull {
 public:
  StrategyPushPull(Rank& rank, const Work& work)
      : metered_(rank),
        crew_{metered_.rank(), rank.size() - work.servers, work.servers, false,
              all_reduce_named("auto")},
        samples_(crew_.workers, 1),
        replica_(metered_.rank().peers, work.bytes),
        averages_(strategy_named(work.collective).steps == Steps::averaged),
        strategy_(make_strategy(work.collective, crew_)) {
    std::vector<int> workers(crew_.workers);
    std::iota(workers.begin(), workers.end(), 0);
    if (crew_.works()) workers_.emplace(rank.peers, workers);
    strategy_->begin(replica_);
    if (Apart* const apart = strategy_->parts().apart; apart && crew_.works()) apart->go();
  }

  bool serves() const override { return !crew_.works(); }
  void serve(int rounds) override {
    strategy_->parts().serving->serve(
        replica_, [this](std::uint64_t n) { return step(n); }, 0, rounds);
  }

  Values pushed() override { return replica_.gradients(); }
  Values pulled() override { return replica_.weights(); }
  void barrier() override { lockstep::barrier(*workers_, channels::kBenchBarrier); }
  void push_and_pull(int round) override { strategy_->update(replica_, step(round)); }
  bool averages() const override { return averages_; }
  void rest() override {
    if (Apart* const apart = strategy_->parts().apart) apart->rest(replica_);
  }
  std::optional<std::uint64_t> bytes_sent() const override {
    return metered_.exchanged().bytes_sent;
  }

 private:
  Step step(std::uint64_t number) const { return {number, 0, samples_}; }

  MeteredRank metered_;
  const Crew crew_;
  const std::vector<std::size_t> samples_;  // as many for each worker
  AddingReplica replica_;
  const bool averages_;
  const std::unique_ptr<Strategy> strategy_;
  std::optional<Group> workers_;  // on a worker
};

}  // namespace

std::string pushing_strategy(const std::string& name) {
  for (const std::string_view strategy : kPushing)
    if (name == strategy_named(strategy).alias) return std::string(strategy);
  return std::string(kPushing[index_named("strategy that pushes", name, kPushing)]);
}

std::unique_ptr<PushPull> make_push_pull(Rank& rank, const Work& work) {
  return std::make_unique<StrategyPushPull>(rank, work);
}

}  // namespace lockstep::bench
