// What the tests of strategies with a central model have in common.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategies/apart.h"

namespace lockstep::testing {

inline ApartTraining apart(const std::string& spec, int workers, int servers) {
  ApartTraining t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  t.servers = servers;
  return t;
}

// SGD by worker 0 alone, step by step.
inline std::vector<Floats> alone(const ApartTraining& training) {
  ToyReplica replica(nullptr, Memory::plain, training.count, training.rate, training.momentum);
  for (std::size_t i = 0; i < training.count; ++i)
    replica.weight_span()[i] = static_cast<float>(i % 7);
  std::vector<Floats> after;
  for (int t = 0; t < training.steps; ++t) {
    compute_gradient(training, 0, t, replica);
    replica.apply_gradients(t);
    after.push_back(copy_of(replica.weight_span()));
  }
  return after;
}

// Fractions whose sums round, so that another order or another operation shows.
inline void rough_gradient(int w, int t, std::span<const float> weights, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = weights[i] - 0.37f * static_cast<float>((w * 5 + t * 3 + i * 11) % 13);
}

// Whole numbers that do not depend on the weights: whatever the order, the sum is exact.
inline void whole_gradient(int w, int t, std::span<const float>, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = 4 * static_cast<float>((w * 5 + t * 3 + i * 11) % 9) - 16;
}
// The sum over those workers' first `steps` steps.
inline double whole_sum(const ApartTraining& training, std::size_t i) {
  double sum = 0;
  Floats gradient(training.count);
  for (int w = 0; w < training.workers; ++w)
    for (int t = 0; t < (w == training.leaves ? 5 : training.steps); ++t) {
      whole_gradient(w, t, {}, gradient);
      sum += gradient[i];
    }
  return sum;
}

inline std::uint64_t updates_in(const ApartRecord& record) { return record.contributions.count; }

// Servers of `t` hold their shards; all workers were told the same.
inline Floats model_at_servers(const ApartTraining& t, const ApartOutcome& outcome) {
  Floats model(t.count);
  for (int k = 0; k < t.servers; ++k) {
    const Slice shard = chunk(t.count, t.servers, k);
    std::copy_n(outcome[t.workers + k].rested.begin() + shard.begin, shard.count,
                model.begin() + shard.begin);
  }
  return model;
}

inline void expect_all_got_the_model(const ApartTraining& t, const ApartOutcome& outcome) {
  const Floats model = model_at_servers(t, outcome);
  for (int w = 0; w < t.workers; ++w)
    EXPECT_TRUE(outcome[w].left || same_bits(outcome[w].model, model)) << "worker " << w;
}

inline void expect_same_bits(const ApartOutcome& a, const ApartOutcome& b) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    ASSERT_EQ(a[r].after.size(), b[r].after.size()) << r;
    for (std::size_t t = 0; t < a[r].after.size(); ++t)
      EXPECT_TRUE(same_bits(a[r].after[t], b[r].after[t])) << "rank " << r << " step " << t;
    EXPECT_TRUE(same_bits(a[r].rested, b[r].rested)) << r;
    EXPECT_TRUE(same_bits(a[r].model, b[r].model)) << r;
    EXPECT_EQ(a[r].contributions.staleness, b[r].contributions.staleness) << r;
    EXPECT_NEAR(a[r].trained_s, b[r].trained_s, 1e-9) << r;  // at other times of the same clock
    EXPECT_EQ(a[r].exchanged, b[r].exchanged) << r;
  }
}

// In one world, one after the other; a process can run only one simulation.
inline std::vector<ApartOutcome> run_apart_all(const World& world,
                                               const std::vector<ApartTraining>& trainings) {
  int most = 1;
  std::vector<ApartOutcome> outcomes;
  for (const ApartTraining& t : trainings) {
    most = std::max(most, t.ranks());
    outcomes.emplace_back(t.ranks());
  }
  world.run(
      most,
      [&](Rank& rank) {
        for (std::size_t i = 0; i < trainings.size(); ++i) {
          if (rank.rank() >= trainings[i].ranks()) continue;
          std::vector<int> first(trainings[i].ranks());
          std::iota(first.begin(), first.end(), 0);
          Group group(rank.peers, first);
          Rank inner{group, rank.clock, rank.background, rank.lock, rank.seed};
          outcomes[i][rank.rank()] = train_apart(trainings[i], inner);
        }
      },
      FabricOptions{});
  return outcomes;
}

inline const World& simulated_world() {
  static const std::vector<World> all = strategy_worlds();
  return *std::ranges::find(all, "simulated", &World::name);
}

inline std::string world_name(const ::testing::TestParamInfo<World>& info) {
  return info.param.name;
}

// `ranks` lists bytes that each rank sent as gradients and weights.
inline std::vector<std::uint64_t> bytes_sent(const ApartOutcome& outcome) {
  std::vector<std::uint64_t> bytes;
  for (const ApartRecord& record : outcome) bytes.push_back(record.exchanged.bytes_sent);
  return bytes;
}

}  // namespace lockstep::testing
