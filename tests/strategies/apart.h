// A few steps of training in which every worker goes at its own pace, and all that happened: what
// the tests of strategies that go apart look at. See training.h for samples and gradients.
#pragma once

#include <numeric>

#include "measure/metered.h"
#include "strategies/audit/audit.h"
#include "tampering.h"
#include "training.h"
#include "transport/group.h"
#include "transport/rank_view.h"

namespace lockstep::testing {

struct ApartTraining {
  MakeOnRank make;
  int workers = 1, servers = 0;
  std::size_t count = 23;
  int steps = 20;
  float rate = 0.25, momentum = 0;
  Memory memory = Memory::plain;
  bool audit = false;
  std::vector<double> step_s;         // of each worker, in virtual time; empty: 0.1 each
  bool empty_steps_take_time = true;  // those without samples, as long as others
  std::vector<std::size_t> samples;   // of each worker; empty: the same
  bool one_batch = false;             // those of a step are (see Crew)
  std::function<bool(int w, std::uint64_t t)> idle;  // has none in step t; empty: never
  MakePushCode push_codes = {};                      // see Crew
  std::optional<BucketRule> push_buckets = {};       // and there
  // Gradients are told ready while they are computed, from the last parameter to the first, all but
  // the first: a third of a step is forward, and backward takes as long for each parameter.
  bool feeds = false;
  int leaves = -1;  // this worker is gone, without a word, before its sixth step
  // Of worker w in step t; empty: as training.h has it, of four samples.
  std::function<void(int w, int t, std::span<const float> weights, std::span<float> out)> gradient;
  std::function<void(int w)> stepped;  // after each update of worker w

  int ranks() const { return workers + servers; }
};

struct ApartRecord {
  std::vector<Floats> after;  // the weights after each of a worker's updates
  Floats rested;              // after rest(), or serve()
  Floats model;               // what fetch_model() gave after rest(); empty where it gives none
  double mass = 0;
  Contributions contributions;
  std::vector<std::uint64_t> updates;  // see ToyReplica
  std::string state;
  Sends sends;
  Traffic exchanged;  // as gradients and weights, on both lanes
  double waited_s = 0, hidden_s = 0, trained_s = 0;
  bool left = false;
};
using ApartOutcome = std::vector<ApartRecord>;

inline void compute_gradient(const ApartTraining& training, int me, int t, ToyReplica& replica) {
  if (training.gradient)
    return training.gradient(me, t, replica.weight_span(), replica.gradient_span());
  Training samples;
  samples.workers = training.workers;
  samples.samples = even_samples(training.workers);
  gradient_of(samples, {{me}}, t, replica.weight_span(), replica.gradient_span());
}

// Of each worker in that step.
inline std::vector<std::size_t> samples_in(const ApartTraining& training, std::uint64_t step) {
  auto samples = training.samples.empty() ? even_samples(training.workers) : training.samples;
  for (int w = 0; training.idle && w < training.workers; ++w)
    if (training.idle(w, step)) samples[w] = 0;
  return samples;
}

// Workers that have no samples in any step.
inline std::vector<int> idle_in(const ApartTraining& training) {
  std::vector<int> idle;
  for (int w = 0; w < training.workers; ++w) {
    bool has_none = true;
    for (int t = 0; has_none && t < training.steps; ++t) has_none = samples_in(training, t)[w] == 0;
    if (has_none) idle.push_back(w);
  }
  return idle;
}

inline void prove_at_rest(const ApartTraining& training, Transport& peers, Strategy& strategy) {
  std::vector<int> workers(training.workers);
  std::iota(workers.begin(), workers.end(), 0);
  Group living(peers, workers);
  if (strategy.parts().audit) strategy.parts().audit->prove_at_rest(living);
}

inline void note_end(ApartRecord& record, const Strategy& strategy) {
  record.mass = strategy.mass();
  record.state = strategy.state();
  const Figures& figures = figures_of(strategy);
  record.contributions = figures.contributions;
  record.waited_s = figures.waited_s;
  record.hidden_s = figures.hidden_s;
  record.sends = figures.sends;
}

inline Crew crew_of(const ApartTraining& training, Rank& rank) {
  return {rank,
          training.workers,
          training.servers,
          false,
          all_reduce_named("ring"),
          idle_in(training),
          training.one_batch,
          {},
          training.push_codes,
          training.push_buckets};
}

// One worker's gradient, and the time that it takes.
inline void compute_step(const ApartTraining& training, int me, const Step& step,
                         Strategy& strategy, ToyReplica& replica, Clock& clock) {
  const bool takes_time = training.empty_steps_take_time || step.samples[me] > 0;
  const double step_s = !takes_time ? 0 : training.step_s.empty() ? 0.1 : training.step_s[me];
  Fed* const fed = training.feeds ? strategy.parts().fed : nullptr;
  if (fed) fed->expect(replica, step);
  clock.charge(fed ? step_s / 3 : step_s);
  if (training.memory != Memory::hollow)
    compute_gradient(training, me, static_cast<int>(step.number), replica);
  if (!fed) return;
  const std::span<const Parameter> all = replica.parameters();
  for (std::size_t i = all.size(); i-- > 0;) {
    clock.charge(step_s * 2 / 3 / static_cast<double>(all.size()));
    if (i > 0) fed->ready(all[i].slice);
  }
}

// What a worker that rests reads of the model, if it can.
inline std::optional<Floats> model_at_rest(const ApartTraining& training, Apart& apart,
                                           ToyReplica& replica) {
  Floats model(replica.weight_span().size());
  const Values into = training.memory == Memory::hollow
                          ? Values::hollow(training.count, Type::fp32)
                          : Values(model.data(), training.count, Type::fp32);
  return apart.fetch_model(into) ? std::optional(model) : std::nullopt;
}

inline ApartRecord train_apart(const ApartTraining& training, Rank& outer) {
  Ledger ledger(outer.size());
  Metered metered(outer.peers, ledger);
  MeteredBackground* background = nullptr;
  RankView view(outer, {.peers = &metered}, [&](Background& inner, int number) {
    auto made = std::make_unique<MeteredBackground>(inner, outer.size());
    if (number == 0) background = made.get();
    return made;
  });
  Rank& rank = view.rank();
  const Crew crew = crew_of(training, rank);
  auto strategy = training.make(crew);
  if (training.audit) strategy = audited(std::move(strategy), crew);
  ToyReplica replica(&metered, training.memory, training.count, training.rate, training.momentum);
  for (std::size_t i = 0; i < replica.weight_span().size(); ++i)
    replica.weight_span()[i] = static_cast<float>(i % 7);
  strategy->begin(replica);

  ApartRecord record;
  std::vector<std::size_t> samples;  // of the step last asked for
  const auto step_at = [&](std::uint64_t t) {
    samples = samples_in(training, t);
    return Step{t, static_cast<int>(t / 10), samples};
  };
  const int me = rank.rank();
  const double start = rank.clock.now();
  if (crew.works()) {
    Apart& apart = *strategy->parts().apart;
    apart.go();
    for (int t = 0; t < training.steps; ++t) {
      if (t == 5 && me == training.leaves) {
        record.left = true;
        record.mass = strategy->mass();
        if (training.servers > 0) drain(rank.background);  // what it pushed has left
        return record;
      }
      compute_step(training, me, step_at(t), *strategy, replica, rank.clock);
      strategy->update(replica, step_at(t));
      record.after.push_back(copy_of(replica.weight_span()));
      if (training.stepped) training.stepped(me);
    }
    record.trained_s = rank.clock.now() - start;
    apart.hand_over(replica, training.steps);
    apart.rest(replica);
    if (training.leaves < 0) prove_at_rest(training, metered, *strategy);
    if (auto model = model_at_rest(training, apart, replica)) record.model = *model;
  } else {
    strategy->parts().serving->serve(replica, step_at, 0, training.steps);
  }
  record.rested = copy_of(replica.weight_span());
  record.updates = replica.updates();
  note_end(record, *strategy);
  for (const Purpose purpose : {Purpose::gradients, Purpose::weights})
    for (const Ledger& lane : {ledger, background->ledger()})
      record.exchanged += total_of(lane, purpose);
  return record;
}

// On all ranks of a world; a process can run only one simulation.
inline ApartOutcome run_apart(const World& world, const ApartTraining& training,
                              const FabricOptions& options = {}) {
  ApartOutcome outcome(training.ranks());
  world.run(
      training.ranks(), [&](Rank& rank) { outcome[rank.rank()] = train_apart(training, rank); },
      options);
  return outcome;
}

// Audited, with every rank's messages tampered with on both lanes: throws what the audit found.
inline void run_tampered(const World& world, ApartTraining training, const Tamper& tamper) {
  training.audit = true;
  const auto body = [&](Rank& outer) {
    Tampering peers(outer.peers, tamper);
    const auto tampered = [tamper](Transport& lane, const Background::Job& job) {
      Tampering tampering(lane, tamper);
      job(tampering);
    };
    RankView view(outer, {.peers = &peers}, [&](Background& inner, int) {
      return std::make_unique<WrappedJobs>(inner, tampered);
    });
    try {
      train_apart(training, view.rank());
    } catch (const TransportError&) {  // of the others, when one has left
    }
  };
  world.run(training.ranks(), body, FabricOptions{});
}

}  // namespace lockstep::testing
