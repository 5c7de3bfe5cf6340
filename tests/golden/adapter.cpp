#include "adapter.h"

#include <numeric>

#include "collectives/all_reduce.h"
#include "core/rng.h"
#include "measure/metered.h"
#include "strategies/audit/audit.h"
#include "strategies/registry.h"
#include "strategies/rounds/round_strategy.h"
#include "strategies/toy_replica.h"
#include "transport/group.h"

namespace lockstep::golden {
namespace {

using lockstep::testing::Memory;
using lockstep::testing::ToyReplica;
using Floats = std::vector<float>;

constexpr float kRate = 0.0625f, kMomentum = 0.9f;
constexpr int kStepsOfEpoch = 4;
constexpr int kRounds = 3;
constexpr std::size_t kStatistics = 5;  // of a model in rounds
// In virtual time: no two workers' steps end together.
constexpr double kStepSeconds[] = {0.1, 0.1317, 0.1713, 0.0873, 0.1129};

const StrategyRow& row_of(const Job& job) { return strategy_named(job.spec); }
// Who computes can't answer: such servers are ranks of their own, beside their workers.
bool within_workers(const Job& job) { return job.colocated && !row_of(job).goes_apart(); }

// From -2 to 2, and a little more for each worker: 24 bits that are all used.
float number_at(int worker, std::uint64_t step, std::size_t i) {
  const std::uint64_t which = (i * 64 + step) * 64 + static_cast<std::uint64_t>(worker);
  return static_cast<float>(mixed(which) >> 40) * 0x1p-22f - 2 + static_cast<float>(worker);
}

std::vector<std::size_t> samples_at(const Job& job, std::uint64_t step) {
  constexpr std::size_t uneven[] = {7, 2, 5, 3, 11};
  std::vector<std::size_t> samples(job.workers, 4);
  if (job.samples == Samples::uneven)
    for (int w = 0; w < job.workers; ++w) samples[w] = uneven[(w + step) % std::size(uneven)];
  if (job.samples == Samples::idle) samples.at(1) = 0;
  return samples;
}

std::uint64_t hash_of(Values values) {
  Hash hash;
  if (!values.is_hollow()) hash.add(values.bytes());
  return hash.value();
}

// What a rank of the job has, whatever its strategy.
class Part {
 public:
  Part(const Job& job, Rank& outer)
      : job_(job),
        ledger_(outer.size()),
        metered_(outer.peers, ledger_),
        background_(outer.background, outer.size()),
        rank_{metered_, outer.clock, background_, outer.lock, outer.seed},
        crew_{rank_,
              job.workers,
              job.servers,
              within_workers(job),
              all_reduce_named(job.collective),
              job.samples == Samples::idle ? std::vector{1} : std::vector<int>{}},
        strategy_(make_strategy(job.spec, crew_)) {
    if (job.audited) strategy_ = audited(std::move(strategy_), crew_);
    const Memory memory = job.hollow    ? Memory::hollow
                          : job.windows ? Memory::window
                                        : Memory::plain;
    replica_.emplace(&metered_, memory, job.count, kRate, kMomentum);
    for (std::size_t i = 0; i < replica_->weight_span().size(); ++i)
      replica_->weight_span()[i] = number_at(0, 63, i);
  }

  OnRank run() {
    start_s_ = rank_.clock.now();
    if (row_of(job_).goes_in_rounds())
      in_rounds();
    else if (row_of(job_).goes_apart())
      apart();
    else
      together();
    return end();
  }

 private:
  int me() const { return rank_.rank(); }

  // As the training loop has it: who reads for others has their samples too.
  Step step_at(std::uint64_t number) {
    const std::vector<std::size_t> before = samples_at(job_, number);
    const Step whole{number, static_cast<int>(number / kStepsOfEpoch), before};
    samples_ = samples_read(*strategy_, whole);
    return {number, whole.epoch, samples_};
  }
  StepAt steps() {
    return [this](std::uint64_t number) { return step_at(number); };
  }

  void compute(const Step& step) {
    if (trains(*strategy_, step)) rank_.clock.charge(kStepSeconds[me()]);
    const std::span<float> weights = replica_->weight_span(), out = replica_->gradient_span();
    const bool has_samples = step.samples[me()] > 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = has_samples ? weights[i] - number_at(me(), step.number, i) : 0;
  }
  void take(const Step& step) {
    compute(step);
    strategy_->update(*replica_, step);
    stepped();
  }
  void stepped() {
    path_.add(hash_of(replica_->weights()));
    seen_.at_s.push_back(rank_.clock.now() - start_s_);
  }

  // Memory for a model.
  Values into(Floats& memory) const {
    if (job_.hollow) return Values::hollow(job_.count, Type::fp32);
    memory.resize(job_.count);
    return {memory.data(), memory.size(), Type::fp32};
  }

  void together() {
    strategy_->begin(*replica_);
    for (int t = 0; t < job_.steps; ++t) {
      if (crew_.works()) {
        take(step_at(t));
      } else {
        strategy_->parts().serving->serve(*replica_, steps(), t, t + 1);
        stepped();
      }
    }
    Floats memory;
    const Values model = into(memory);
    if (crew_.works()) strategy_->read_model(*replica_, model);
    seen_.model = hash_of(model);
  }

  // In two legs, with a rest between them, as before a checkpoint.
  void apart() {
    strategy_->begin(*replica_);
    const StrategyParts& parts = strategy_->parts();
    for (const int first : {0, job_.steps / 2}) {
      const int end = first == 0 ? job_.steps / 2 : job_.steps;
      if (!crew_.works()) {
        parts.serving->serve(*replica_, steps(), first, end);
        stepped();
        continue;
      }
      parts.apart->go();
      for (int t = first; t < end; ++t) take(step_at(t));
      parts.apart->rest(*replica_);
      stepped();
      std::vector<int> all(job_.workers);
      std::iota(all.begin(), all.end(), 0);
      Group workers(metered_, all);
      if (parts.audit) parts.audit->prove_at_rest(workers);
    }
    Floats memory;
    const Values model = into(memory);
    if (crew_.works() && parts.apart->fetch_model(model)) seen_.model = hash_of(model);
  }

  // A manager hands the round's model to all workers and makes the next of what they come with.
  void in_rounds() {
    RoundStrategy& strategy = lockstep::in_rounds(*strategy_);
    for (int round = 0; round < kRounds; ++round)
      crew_.works() ? work(strategy, round) : manage(strategy, round);
  }

  struct Mail {
    Floats statistics = Floats(kStatistics);
    RoundProof proof;
    Values values() { return {statistics.data(), kStatistics, Type::fp32}; }
  };
  void send(int to, std::uint32_t number, Values weights, Mail& mail) {
    Transport& peers = rank_.peers;
    peers.wait(peers.send(to, {Purpose::control, number}, bytes_of(mail.proof)));
    peers.wait(peers.send(to, {Purpose::weights, number}, weights.bytes()));
    peers.wait(peers.send(to, {Purpose::weights, number}, mail.values().bytes()));
  }
  void recv(int from, std::uint32_t number, Values weights, Mail& mail) {
    Transport& peers = rank_.peers;
    peers.wait(peers.recv(from, {Purpose::control, number}, bytes_of(mail.proof)));
    peers.wait(peers.recv(from, {Purpose::weights, number}, weights.bytes()));
    peers.wait(peers.recv(from, {Purpose::weights, number}, mail.values().bytes()));
  }

  void manage(RoundStrategy& strategy, int round) {
    const RoundModel model{replica_->weights(), statistics_.values()};
    statistics_.proof = strategy.proof_of(model);
    for (int w = 0; w < job_.workers; ++w) send(w, 1, model.weights, statistics_);
    std::vector<Floats> memories(job_.workers);
    std::vector<Mail> mail(job_.workers);
    std::vector<RoundResult> results;
    for (int w = 0; w < job_.workers; ++w) {
      const Values weights = into(memories[w]);
      recv(w, 2, weights, mail[w]);
      const double loss = 1 + 0.25 * ((w + round) % 3);
      const std::uint64_t samples = samples_at(job_, round)[w];
      results.push_back({w, w, loss, samples, {weights, mail[w].values()}, mail[w].proof});
    }
    strategy.aggregate(model, results);
    stepped();
    Hash both;
    both.add(hash_of(model.weights));
    both.add(hash_of(model.statistics));
    path_.add(both.value());
    seen_.model = both.value();
  }

  void work(RoundStrategy& strategy, int round) {
    const int manager = job_.workers;
    recv(manager, 1, replica_->weights(), statistics_);
    replica_->forget();
    strategy.starts_from(*replica_, statistics_.values(), statistics_.proof);
    const int steps = job_.steps / kRounds;
    for (int t = 0; t < steps && samples_at(job_, round)[me()] > 0; ++t)
      take(step_at(round * steps + t));
    for (std::size_t i = 0; i < kStatistics; ++i)
      statistics_.statistics[i] += number_at(me(), round, i);
    statistics_.proof = strategy.comes_with(*replica_, statistics_.values());
    send(manager, 2, replica_->weights(), statistics_);
  }

  OnRank end() {
    seen_.weights = hash_of(replica_->weights());
    seen_.path = path_.value();
    Hash kept;
    for (const Kept& memory : strategy_->memories()) {
      kept.add(memory.name);
      kept.add(hash_of(memory.values));
    }
    seen_.kept = kept.value();
    seen_.state = strategy_->state();
    seen_.mass = strategy_->mass();
    const Figures& figures = figures_of(*strategy_);
    const Contributions& all = figures.contributions;
    Hash contributed;
    for (const std::uint64_t count : all.staleness) contributed.add(count);
    for (const double weight : all.weight) contributed.add(weight);
    seen_.contributions = all.count;
    seen_.contributed = contributed.value();
    seen_.merged = figures.sends.merged;
    seen_.withheld = figures.sends.withheld;
    seen_.waited_s = figures.waited_s;
    seen_.hidden_s = figures.hidden_s;
    seen_.at_s.push_back(rank_.clock.now() - start_s_);
    seen_.moved = ledger_;
    seen_.moved += background_.ledger();
    return std::move(seen_);
  }

  const Job& job_;
  Ledger ledger_;
  Metered metered_;
  MeteredBackground background_;
  Rank rank_;
  const Crew crew_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<ToyReplica> replica_;
  std::vector<std::size_t> samples_;  // of the step last asked for
  Mail statistics_;                   // in rounds
  double start_s_ = 0;
  Hash path_;
  OnRank seen_;
};

}  // namespace

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const StrategyRow& row : strategies())
    all.push_back({std::string(row.name), row.has_servers(), !row.goes_apart(),
                   row.goes_in_rounds(), row.exchange == Exchange::collective});
  return all;
}

int ranks_of(const Job& job) { return job.workers + (within_workers(job) ? 0 : job.servers); }
int guests_of(const Job& job) { return job.colocated ? ranks_of(job) - job.workers : 0; }

OnRank run(const Job& job, Rank& rank) { return Part(job, rank).run(); }

}  // namespace lockstep::golden
