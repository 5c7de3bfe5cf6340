// Rounds without tasks: a manager and workers that send their models to each other, with
// what the strategy makes of them.
#pragma once

#include "strategies/audit/audit.h"
#include "strategies/contract.h"
#include "strategies/rounds/round_strategy.h"

namespace lockstep::testing {

inline constexpr int kRoundWorkers = 3, kRounds = 3, kStepsOfTask = 2;
inline constexpr float kFirst = 7;  // every weight and statistic, before the first round

struct ToyRounds {
  std::size_t count = 23, statistics = 5;
  std::vector<Floats> models = {};  // of each round, at the manager: weights, then statistics
};

// What worker w comes to from weight x by one step.
inline float after_step(int w, float x) { return x - 0.25f * (x - static_cast<float>(w)); }
// Statistics that it comes back with.
inline float statistic(int w, int round, std::size_t i) {
  return static_cast<float>(w * 3 + round) + static_cast<float>(i);
}

// Samples that it says its result is of: two for worker 0, four for worker 1, and so on.
inline std::uint64_t samples_of_task(int w) { return 2 * (static_cast<std::uint64_t>(w) + 1); }
// The mean of what the workers come back with, by those.
inline float mean_statistic(int round, std::size_t i) {
  float sum = 0, samples = 0;
  for (int w = 0; w < kRoundWorkers; ++w) {
    sum += static_cast<float>(samples_of_task(w)) * statistic(w, round, i);
    samples += static_cast<float>(samples_of_task(w));
  }
  return sum / samples;
}

inline RoundModel view_of(Floats& model, const ToyRounds& rounds) {
  return {Values(model.data(), rounds.count, Type::fp32),
          Values(model.data() + rounds.count, rounds.statistics, Type::fp32)};
}

inline Bytes all_of(Floats& model) {
  return Values(model.data(), model.size(), Type::fp32).bytes();
}

inline void manage(RoundStrategy& strategy, Transport& peers, ToyRounds& rounds) {
  Floats model(rounds.count + rounds.statistics, kFirst);
  for (int round = 0; round < kRounds; ++round) {
    const RoundModel view = view_of(model, rounds);
    RoundProof given = strategy.proof_of(view);
    std::vector<Floats> came(kRoundWorkers, Floats(model.size()));
    std::vector<RoundProof> proofs(kRoundWorkers);
    std::vector<RoundResult> results;
    for (int w = 0; w < kRoundWorkers; ++w) {
      peers.wait(peers.send(w, {Purpose::control, 1}, bytes_of(given)));
      peers.wait(peers.send(w, {Purpose::weights, 1}, all_of(model)));
    }
    for (int w = 0; w < kRoundWorkers; ++w) {
      peers.wait(peers.recv(w, {Purpose::control, 2}, bytes_of(proofs[w])));
      peers.wait(peers.recv(w, {Purpose::weights, 2}, all_of(came[w])));
      results.push_back({w, w, 1, samples_of_task(w), view_of(came[w], rounds), proofs[w]});
    }
    strategy.aggregate(view, results);
    rounds.models.push_back(model);
  }
}

inline void work_in_rounds(RoundStrategy& strategy, Transport& peers, const ToyRounds& rounds) {
  const int me = peers.rank();
  ToyReplica replica(nullptr, Memory::plain, rounds.count, 0.25f);
  for (int round = 0; round < kRounds; ++round) {
    Floats model(rounds.count + rounds.statistics);
    RoundProof given;
    peers.wait(peers.recv(kRoundWorkers, {Purpose::control, 1}, bytes_of(given)));
    peers.wait(peers.recv(kRoundWorkers, {Purpose::weights, 1}, all_of(model)));
    std::copy_n(model.begin(), rounds.count, replica.weight_span().begin());
    strategy.starts_from(replica, view_of(model, rounds).statistics, given);
    const std::vector<std::size_t> samples(kRoundWorkers, 2);
    for (std::uint64_t step = 0; step < kStepsOfTask; ++step) {
      for (std::size_t i = 0; i < rounds.count; ++i)
        replica.gradient_span()[i] = replica.weight_span()[i] - static_cast<float>(me);
      strategy.update(replica, {step, round, samples});
    }
    std::ranges::copy(replica.weight_span(), model.begin());
    for (std::size_t i = 0; i < rounds.statistics; ++i)
      model[rounds.count + i] = statistic(me, round, i);
    RoundProof proof = strategy.comes_with(replica, view_of(model, rounds).statistics);
    peers.wait(peers.send(kRoundWorkers, {Purpose::control, 2}, bytes_of(proof)));
    peers.wait(peers.send(kRoundWorkers, {Purpose::weights, 2}, all_of(model)));
  }
}

// Of a strategy by which results count alike, and their statistics by samples. Throws what an audit
// finds.
inline Complaints complaints_about_rounds(const MakeOnRank& make, bool audit) {
  ToyRounds rounds;
  run_loopback(kRoundWorkers + 1, [&](Rank& rank) {
    const Crew crew{rank, kRoundWorkers, 1, false, all_reduce_named("ring")};
    auto strategy = make(crew);
    if (audit) strategy = audited(std::move(strategy), crew);
    try {
      if (crew.works())
        work_in_rounds(in_rounds(*strategy), rank.peers, rounds);
      else
        manage(in_rounds(*strategy), rank.peers, rounds);
    } catch (const TransportError&) {  // of the others, when one has left
      if (!audit) throw;
    }
  });
  double weight = kFirst;
  for (int round = 0; round < kRounds; ++round) {
    double sum = 0;
    for (int w = 0; w < kRoundWorkers; ++w) {
      float x = static_cast<float>(weight);
      for (int step = 0; step < kStepsOfTask; ++step) x = after_step(w, x);
      sum += x;
    }
    weight = sum / kRoundWorkers;
    const Floats& model = rounds.models.at(round);
    for (std::size_t i = 0; i < rounds.count; ++i)
      if (!(std::abs(model[i] - weight) < 1e-5))
        return {fmt::format("round {}: {} where the mean is {}", round, model[i], weight)};
    for (std::size_t i = 0; i < rounds.statistics; ++i)
      if (!(std::abs(model[rounds.count + i] - mean_statistic(round, i)) < 1e-5))
        return {fmt::format("round {}: statistics {} where the mean is {}", round,
                            model[rounds.count + i], mean_statistic(round, i))};
  }
  return {};
}

}  // namespace lockstep::testing
