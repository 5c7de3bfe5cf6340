// A few steps of training with a toy replica on every rank, and all that happened: what the
// strategies' tests look at.
//
// Each sample is a point x and its loss |w - x|²/2, so a gradient is w less the mean of the
// samples. The whole numbers are such that means over any of the batches here are exact in fp32,
// and so is all arithmetic of a few steps: then any two ways to compute the same agree to the bit.
#pragma once

#include <cstring>
#include <numeric>

#include "measure/metered.h"
#include "strategies/average.h"
#include "strategies/registry.h"
#include "toy_replica.h"
#include "transport/group.h"
#include "transport/rank_view.h"
#include "worlds.h"

namespace lockstep::testing {

using Floats = std::vector<float>;
using MakeOnRank = std::function<std::unique_ptr<Strategy>(const Crew&)>;

// What a strategy must say of itself in its flows(), beside what holds for all.
struct Claims {
  bool exact = false;        // in every step: it is one worker with all the samples
  bool plain_alone = false;  // one worker is plain SGD
  // Workers step alone: in the mean of their steps every sample counts once. Else the factors of a
  // step's gradients add up to one.
  bool steps_by_samples = false;
  bool keeps_mean = false;  // the workers' mean moves by the mean of their steps, with even samples
  // The weights are averaged at the end of every so many steps, by the samples of all these. 0: no.
  int round = 0;
};

struct Training {
  MakeOnRank make;
  Claims claims;
  int workers = 1, servers = 0;
  bool colocated = false;
  std::string collective = "ring";

  std::size_t count = 23;
  int steps = 3;
  std::vector<std::size_t> samples;  // of each worker, in the first step: see samples_at()
  bool whole_numbers = true;
  float size = 1;  // of numbers that are not whole: they are multiplied by this
  Memory memory = Memory::plain;
  float momentum = 0;
  bool serve_at_once = false;  // all steps in one call; else one by one
  int leaves = -1;             // this rank leaves after the first step
  MakeMean means = {};         // see Crew
  MakePushCode push_codes = {};
  std::optional<BucketRule> push_buckets = {};
  // Gradients are told ready while they are computed, from the last parameter to the first, all but
  // the first; where the strategy can be fed.
  bool feeds = false;

  int ranks() const { return colocated ? workers : workers + servers; }
  // They go round: who had many has few in the next step, so that those of one step are not taken
  // for those of several.
  std::vector<std::size_t> samples_at(std::uint64_t step) const {
    std::vector<std::size_t> now = samples;
    std::ranges::rotate(now, now.begin() + static_cast<std::ptrdiff_t>(step % now.size()));
    return now;
  }
  static constexpr float kRate = 0.25;
};

// Batches of four, or as uneven as can be while their mean is four.
inline std::vector<std::size_t> even_samples(int m) { return std::vector<std::size_t>(m, 4); }
inline std::vector<std::size_t> uneven_samples(int m) {
  const std::vector<std::size_t> by_workers[] = {
      {4}, {2, 6}, {6, 0, 6}, {0, 8, 2, 6}, {2, 0, 8, 4, 6}};
  return by_workers[m - 1];
}

inline float sample(const Training& training, int worker, int step, std::size_t s, std::size_t i) {
  if (training.whole_numbers)
    return 840 * (static_cast<float>((worker * 5 + step * 3 + s * 7 + i * 11) % 5) - 2);
  const std::uint64_t which = ((i * 64 + s) * 64 + step) * 64 + worker;
  return training.size *
         (static_cast<float>(mixed(which) >> 40) * 0x1p-22f - 2 + static_cast<float>(worker));
}

// Of the mean loss over those samples.
inline void gradient_of(const Training& training, std::span<const int> workers, int step,
                        std::span<const float> weights, std::span<float> out) {
  const std::vector<std::size_t> of = training.samples_at(step);
  std::size_t samples = 0;
  for (const int w : workers) samples += of[w];
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0;
    for (const int w : workers)
      for (std::size_t s = 0; s < of[w]; ++s) sum += sample(training, w, step, s, i);
    out[i] = samples ? weights[i] - static_cast<float>(sum / samples) : 0;
  }
}

inline float first_weight(const Training& training, std::size_t i) {
  return training.whole_numbers ? static_cast<float>(i % 7)
                                : 0.1f * training.size * static_cast<float>(i % 11);
}

// One of a strategy's memories() in one step.
struct Remembered {
  std::string name;
  bool a_model = false;
  std::size_t first = 0;  // of the weights that it has numbers for
  Floats before, after;
  std::vector<Flow> flows;

  double before_at(std::size_t i) const { return at(before, i); }
  double after_at(std::size_t i) const { return at(after, i); }

 private:
  double at(const Floats& values, std::size_t i) const {
    return i < first || i - first >= values.size() ? 0 : values[i - first];
  }
};
// What one rank saw in one step.
struct Seen {
  Floats before, gradients, after;
  std::uint64_t sent = 0, promised = 0;  // bytes
  std::vector<Flow> flows;
  std::vector<Remembered> memories;
};
struct Record {
  std::vector<Seen> steps;
  Floats model;                // workers': what read_model gives after the last step,
  std::vector<Flow> of_model;  // and what the strategy says that it is: one
};

inline Floats copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }
inline Floats copy_of(Values values) {
  if (values.is_hollow()) return {};
  return copy_of({reinterpret_cast<const float*>(values.bytes().data), values.count()});
}

inline std::vector<Remembered> remembered_before(Strategy& strategy) {
  std::vector<Remembered> all;
  for (const Kept& kept : strategy.memories())
    all.push_back({kept.name, kept.a_model, kept.first, copy_of(kept.values), {}, {}});
  return all;
}
inline void remember_after(Strategy& strategy, const Step& step, int me, std::size_t count,
                           std::vector<Remembered>& all) {
  const std::vector<Kept> now = strategy.memories();
  for (std::size_t k = 0; k < all.size(); ++k) {
    all[k].after = copy_of(now[k].values);
    all[k].flows = strategy.parts().statement->flows_of_memory(k, step, me, count);
  }
}

inline std::uint64_t bytes_sent(const Training& training, const Ledger& ledger) {
  std::uint64_t bytes = 0;
  for (const Purpose purpose : {Purpose::gradients, Purpose::weights}) {
    const Traffic t = total_of(ledger, purpose);
    bytes += t.bytes_sent + (training.collective == "shared" ? t.bytes_received : 0);
  }
  return bytes;
}

// Computes a worker's gradients, as a training loop does. Returns them. A gradient that is not told
// ready yet is NaN: whoever looks at it too early is found out. In every other step what a part
// that is ready has begun comes to its end before the next one is ready.
inline Floats computed(const Training& training, Rank& rank, Strategy& strategy,
                       ToyReplica& replica, const Step& step) {
  Fed* const fed = training.feeds ? strategy.parts().fed : nullptr;
  if (fed) fed->expect(replica, step);
  const std::span<float> in_place = replica.gradient_span();
  Floats gradients(in_place.size(), std::nanf(""));  // where it does not train, nobody may look
  if (trains(strategy, step))
    gradient_of(training, {{rank.rank()}}, static_cast<int>(step.number), replica.weight_span(),
                gradients);
  std::ranges::fill(in_place, std::nanf(""));
  const std::span<const Parameter> all = replica.parameters();
  for (std::size_t i = all.size(); i-- > 0;) {
    const Slice part = all[i].slice;
    if (!in_place.empty())
      std::copy_n(gradients.begin() + static_cast<std::ptrdiff_t>(part.begin), part.count,
                  in_place.begin() + static_cast<std::ptrdiff_t>(part.begin));
    if (!fed || i == 0) continue;
    fed->ready(part);
    if (step.number % 2 == 0) drain(rank.background);
  }
  return gradients;
}

inline Crew crew_of(const Training& training, Rank& rank) {
  return {.rank = rank,
          .workers = training.workers,
          .servers = training.servers,
          .colocated = training.colocated,
          .collective = all_reduce_named(training.collective),
          .means = training.means,
          .push_codes = training.push_codes,
          .push_buckets = training.push_buckets};
}

// On every rank of `peers`, which are those of the training.
inline Record train(const Training& training, Rank& outer, Transport& peers) {
  Ledger ledger(peers.size());
  Metered metered(peers, ledger);
  MeteredBackground* background = nullptr;
  RankView view(outer, {.peers = &metered}, [&](Background& inner, int number) {
    auto made = std::make_unique<MeteredBackground>(inner, outer.size());
    if (number == 0) background = made.get();
    return made;
  });
  Rank& rank = view.rank();
  const Crew crew = crew_of(training, rank);
  const auto strategy = training.make(crew);
  ToyReplica replica(&metered, training.memory, training.count, Training::kRate, training.momentum);
  for (std::size_t i = 0; i < replica.weight_span().size(); ++i)
    replica.weight_span()[i] = first_weight(training, i);
  strategy->begin(replica);
  Record record;
  std::vector<std::vector<std::size_t>> samples;
  for (int t = 0; t < training.steps; ++t) samples.push_back(training.samples_at(t));
  const auto step_at = [&](std::uint64_t t) {
    return Step{t, static_cast<int>(t / 2), samples[t]};
  };
  const int me = peers.rank();
  if (!crew.works() && training.serve_at_once) {
    strategy->parts().serving->serve(replica, step_at, 0, training.steps);
    return record;
  }
  for (int t = 0; t < training.steps; ++t) {
    if (t == 1 && me == training.leaves) return record;
    Seen seen{copy_of(replica.weight_span()), {}, {}, 0, 0, {}, remembered_before(*strategy)};
    const Step step = step_at(t);
    const std::uint64_t sent_before =
        bytes_sent(training, ledger) + bytes_sent(training, background->ledger());
    if (crew.works()) {
      seen.gradients = computed(training, rank, *strategy, replica, step);
      strategy->update(replica, step);
    } else {
      strategy->parts().serving->serve(replica, step_at, t, t + 1);
    }
    seen.after = copy_of(replica.weight_span());
    seen.sent =
        bytes_sent(training, ledger) + bytes_sent(training, background->ledger()) - sent_before;
    seen.promised = strategy->parts().statement->bytes_sent(step, me, training.count);
    seen.flows = strategy->parts().statement->flows(step, me, training.count);
    remember_after(*strategy, step, me, training.count, seen.memories);
    record.steps.push_back(std::move(seen));
  }
  if (crew.works()) {
    record.model.resize(replica.weight_span().size());
    strategy->read_model(replica, training.memory == Memory::hollow
                                      ? Values::hollow(training.count, Type::fp32)
                                      : Values(record.model.data(), training.count, Type::fp32));
    Flow of_model = strategy->parts().statement->flow_of_model(me, training.count);
    if (of_model.weights.empty())
      of_model = flow_of_mean(crew, training.count, std::vector<double>(training.workers, 1));
    record.of_model.push_back(of_model);
  }
  return record;
}

// Of every rank.
using Outcome = std::vector<Record>;

// Runs them one after the other, each on the first ranks of one fabric (a process can run only one
// simulation).
inline std::vector<Outcome> run_all(const World& world, const std::vector<Training>& trainings,
                                    const FabricOptions& options = {}) {
  int most = 1;
  std::vector<Outcome> outcomes;
  for (const Training& training : trainings) {
    most = std::max(most, training.ranks());
    outcomes.emplace_back(training.ranks());
  }
  world.run(
      most,
      [&](Rank& rank) {
        for (std::size_t i = 0; i < trainings.size(); ++i) {
          if (rank.rank() >= trainings[i].ranks()) continue;
          std::vector<int> first(trainings[i].ranks());
          std::iota(first.begin(), first.end(), 0);
          Group group(rank.peers, first);
          outcomes[i][rank.rank()] = train(trainings[i], rank, group);
        }
      },
      options);
  return outcomes;
}

// Plain SGD by one worker alone that has all the samples.
inline std::vector<Floats> one_big_batch(const Training& training) {
  ToyReplica replica(nullptr, Memory::plain, training.count, Training::kRate, training.momentum);
  for (std::size_t i = 0; i < training.count; ++i)
    replica.weight_span()[i] = first_weight(training, i);
  std::vector<int> everyone(training.workers);
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<Floats> after;
  for (int t = 0; t < training.steps; ++t) {
    gradient_of(training, everyone, t, replica.weight_span(), replica.gradient_span());
    replica.apply_gradients(t);
    after.push_back(copy_of(replica.weight_span()));
  }
  return after;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Loopback, shared memory and simulation; the same code runs in all.
inline std::vector<World> strategy_worlds() {
  std::vector<World> chosen;
  for (const World& world : worlds())
    if (world.name == "loopback" || world.name == "shm" || world.name == "simulated")
      chosen.push_back(world);
  return chosen;
}

}  // namespace lockstep::testing
