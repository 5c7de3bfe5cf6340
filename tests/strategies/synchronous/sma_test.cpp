// SMA against the rules it is a form of, its devices, its restarts and its search for learners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategies/audit/audit.h"
#include "strategies/contract.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Training of(const std::string& spec, int workers = 4) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  t.samples = even_samples(workers);
  t.whole_numbers = false;
  t.steps = 8;
  return t;
}

const Floats& centre(const Outcome& outcome, int t) {
  return outcome[0].steps[t].memories[0].after;
}

class Sma : public ::testing::TestWithParam<World> {};

// x_i' = x_i - eta g_i(x_i) - a (x_i - z), z' = z + a sum_i (x_i - z), with a = beta/m.
TEST_P(Sma, WithoutMomentumIsSynchronousEasgd) {
  constexpr int m = 4;
  constexpr double beta = 0.8, a = beta / m;
  const Training t = of("sma:momentum=0,alpha=0.2");
  const Outcome outcome = run_all(GetParam(), {t})[0];
  std::vector<Floats> x(m, Floats(t.count));
  Floats z(t.count), gradient(t.count);
  for (std::size_t i = 0; i < t.count; ++i) {
    z[i] = first_weight(t, i);
    for (Floats& its : x) its[i] = z[i];
  }
  for (int step = 0; step < t.steps; ++step) {
    std::vector<double> pulled(t.count);
    for (int w = 0; w < m; ++w) {
      gradient_of(t, {{w}}, step, x[w], gradient);
      for (std::size_t i = 0; i < t.count; ++i) {
        const double d = a * (x[w][i] - z[i]);
        x[w][i] = static_cast<float>(x[w][i] - Training::kRate * gradient[i] - d);
        pulled[i] += d;
      }
    }
    for (std::size_t i = 0; i < t.count; ++i) {
      z[i] = static_cast<float>(z[i] + pulled[i]);
      EXPECT_NEAR(centre(outcome, step)[i], z[i], 1e-5);
      for (int w = 0; w < m; ++w) EXPECT_NEAR(outcome[w].steps[step].after[i], x[w][i], 1e-5);
    }
  }
}

TEST_P(Sma, WithoutMomentumAndAtOneKthTheCentreIsTheMean) {
  const Training t = of("crossbow:momentum=0");
  const Outcome outcome = run_all(GetParam(), {t})[0];
  for (int step = 0; step < t.steps; ++step)
    for (std::size_t i = 0; i < t.count; ++i) {
      double mean = 0;
      for (const Record& record : outcome) mean += record.steps[step].before[i] / 4;
      EXPECT_NEAR(centre(outcome, step)[i], mean, 1e-5);
    }
}

// The centre's momentum is of z - z_prev, which is what it moved in all, not of the sum alone.
TEST_P(Sma, TheCentreKeepsAShareOfItsWholeMove) {
  const Training t = of("sma:momentum=0.9,alpha=0.1");
  const Outcome outcome = run_all(GetParam(), {t})[0];
  for (std::size_t i = 0; i < t.count; ++i) {
    double z = first_weight(t, i), z_prev = z;
    for (int step = 0; step < t.steps; ++step) {
      double next = z + 0.9 * (z - z_prev);
      for (const Record& record : outcome) next += 0.1 * (record.steps[step].before[i] - z);
      z_prev = z;
      z = next;
      EXPECT_NEAR(centre(outcome, step)[i], z, 1e-4);
    }
    EXPECT_EQ(outcome[3].model[i], centre(outcome, t.steps - 1)[i]);
  }
}

// In the mean of the learners' steps, however many samples each has.
TEST_P(Sma, EverySampleCountsOnce) {
  Training uneven = of("sma"), reduced = of("all-reduce");
  for (Training* training : {&uneven, &reduced}) {
    training->samples = uneven_samples(4);
    training->steps = 1;
  }
  uneven.make = [](const Crew& crew) { return audited(make_strategy("sma", crew), crew); };
  const auto outcomes = run_all(GetParam(), {uneven, reduced});
  for (std::size_t i = 0; i < uneven.count; ++i) {
    double mean = 0;
    for (const Record& record : outcomes[0]) mean += record.steps[0].after[i] / 4;
    EXPECT_NEAR(mean, outcomes[1][0].model[i], 1e-5);
  }
}

TEST_P(Sma, AloneAndWithoutPullIsSgdBitForBit) {
  Training t = of("sma:alpha=1e-300", 1);
  t.momentum = 0.9f;
  const Outcome outcome = run_all(GetParam(), {t})[0];
  const auto alone = one_big_batch(t);
  for (int step = 0; step < t.steps; ++step)
    EXPECT_TRUE(same_bits(outcome[0].steps[step].after, alone[step]));
}

// Two, three, six or four and two learners on a device: the same numbers, by other messages, all as
// promised.
TEST_P(Sma, DevicesChangeTheMessagesAndNotTheNumbers) {
  std::vector<Training> trainings;
  for (const int learners : {1, 2, 3, 6, 4})
    for (const std::string collective : {"ring", "shared", "hierarchical"}) {
      trainings.push_back(of(fmt::format("sma:learners={}", learners), 6));
      trainings.back().collective = collective;
      trainings.back().memory = Memory::window;
      trainings.back().make = [make = trainings.back().make](const Crew& crew) {
        return audited(make(crew), crew);
      };
    }
  FabricOptions options;
  options.ranks_per_host = GetParam().name == "shm" ? 0 : 6;
  const auto outcomes = run_all(GetParam(), trainings, options);
  for (std::size_t n = 0; n < trainings.size(); ++n) {
    EXPECT_THAT(flows_are_sound(trainings[n], outcomes[n]), IsEmpty()) << n;
    EXPECT_THAT(results_follow_the_flows(trainings[n], outcomes[n]), IsEmpty()) << n;
    // With `shared` what is received counts as well; there are messages instead between devices.
    if (trainings[n].collective != "shared" || n < 3) {
      EXPECT_THAT(bytes_are_as_promised(trainings[n], outcomes[n]), IsEmpty()) << n;
    }
    for (int r = 0; r < 6; ++r)
      for (std::size_t i = 0; i < trainings[n].count; ++i)
        EXPECT_NEAR(outcomes[n][r].model[i], outcomes[0][r].model[i], 1e-4);
  }
  const auto sent = [&](int n, int rank) { return outcomes[n][rank].steps[0].sent / 92; };
  EXPECT_EQ(sent(3, 1), 1u);  // ring, two learners: the second of a device sends N up
  EXPECT_EQ(sent(9, 0), 3u);  // six on one device: down a binomial tree
}

INSTANTIATE_TEST_SUITE_P(Every, Sma, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST(SmaRules, WithoutGradientsAndMomentumLearnersAndCentreAreConserved) {
  constexpr int m = 3;
  std::vector<Floats> weights(m);
  std::vector<float> centres(m);
  run_loopback(m, [&](Rank& rank) {
    const Crew crew{rank, m, 0, false, all_reduce_named("ring")};
    const auto strategy = make_strategy("sma:momentum=0,alpha=0.25", crew);
    ToyReplica replica(nullptr, Memory::plain, 4, 0.5f);
    strategy->begin(replica);  // the centre is zero
    std::ranges::fill(replica.weight_span(), static_cast<float>(64 * rank.rank() + 64));
    const auto samples = even_samples(m);
    for (std::uint64_t t = 0; t < 3; ++t) {
      std::ranges::fill(replica.gradient_span(), 0.f);
      strategy->update(replica, {t, 0, samples});
    }
    weights[rank.rank()] = copy_of(replica.weight_span());
    centres[rank.rank()] = copy_of(strategy->memories()[0].values)[0];
  });
  EXPECT_NE(centres[0], 0);
  EXPECT_EQ(weights[0][0] + weights[1][0] + weights[2][0] + centres[0], 64 * 6);
  EXPECT_EQ(centres, std::vector<float>(m, centres[0]));
}

// A toy whose learning rate falls in step 5, and glides otherwise. Its steps are all the same.
class Dropping final : public Replica {
 public:
  explicit Dropping(ToyReplica& inner) : inner_(inner) {}
  Values weights() override { return inner_.weights(); }
  Values gradients() override { return inner_.gradients(); }
  std::span<const Parameter> parameters() const override { return inner_.parameters(); }
  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates,
                       double share) override {
    inner_.apply_gradients(step, part, updates, share);
  }
  double learning_rate(std::uint64_t step) const override {
    return (step < 5 ? 1 : 0.1) - 0.001 * static_cast<double>(step);
  }
  void forget() override { inner_.forget(); }

 private:
  ToyReplica& inner_;
};

TEST(SmaRules, WhereTheLearningRateDropsAllStartAnewFromTheCentre) {
  run_loopback(3, [](Rank& rank) {
    const Crew crew{rank, 3, 0, false, all_reduce_named("ring")};
    const auto strategy = audited(make_strategy("sma", crew), crew);
    ToyReplica toy(nullptr, Memory::plain, 6, 0.25f);
    Dropping replica(toy);
    strategy->begin(replica);
    const auto samples = even_samples(3);
    for (std::uint64_t t = 0; t < 9; ++t) {
      for (int i = 0; i < 6; ++i)
        toy.gradient_span()[i] = static_cast<float>(rank.rank() + i + t % 4) - 2;
      strategy->update(replica, {t, 0, samples});
      const Floats z = copy_of(strategy->memories()[0].values);
      const Floats z_prev = copy_of(strategy->memories()[1].values);
      EXPECT_EQ(copy_of(toy.weight_span()) == z, t == 4) << t;
      // In the first step from the centre nobody has left it yet.
      EXPECT_EQ(z_prev == z, t == 0 || t == 4 || t == 5) << t;
    }
  });
}

TEST(SmaRules, WhatCannotBeIsRefused) {
  const auto refusal = [](const std::string& spec, int workers) -> std::string {
    std::string what = "accepted";
    run_loopback(workers, [&](Rank& rank) {
      const Crew crew{rank, workers, 0, false, all_reduce_named("ring")};
      try {
        make_strategy(spec, crew);
      } catch (const UsageError& e) {
        if (rank.rank() == 0) what = e.what();
      }
    });
    return what;
  };
  EXPECT_EQ(refusal("sma:learners=2", 3), "accepted");  // the last device has one
  EXPECT_THAT(refusal("sma:learners=0", 1), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("sma:auto=on", 1), HasSubstr("at most"));
  EXPECT_THAT(refusal("sma:momentum=1", 1), HasSubstr("below 1"));
  EXPECT_THAT(refusal("sma:alpha=2", 1), HasSubstr("to 1"));
}

// Two devices with room for four learners. A step with n of them on each takes so long:
constexpr double kStepSeconds[] = {0.1, 0.11, 0.13, 0.2};
// which is 10, 18, 23 and 20 batches a second and device: three is best.

struct Search {
  std::vector<int> learners;  // on each device, by step
  bool starts_from_centre = true;
  int settled = 0;
};

Search search(Rank& rank, int most, const double* seconds) {
  const int m = rank.size();
  const Crew crew{rank, m, 0, false, all_reduce_named("ring")};
  const std::string spec = fmt::format("sma:learners={},auto=on", most);
  auto strategy = audited(make_strategy(spec, crew), crew);
  ToyReplica replica(nullptr, Memory::plain, 9, 0.25f);
  strategy->begin(replica);
  const auto samples = even_samples(m);
  Search found;
  bool trained = trains(*strategy, {0, 0, samples});
  for (std::uint64_t t = 0; t < 100; ++t) {
    const Step step{t, 0, samples};
    int learners = 0;
    for (int r = 0; r < most; ++r)
      learners += !strategy->parts().statement->flows(step, r, 9)[0].gradients.empty();
    found.learners.push_back(learners);
    const bool trains = lockstep::trains(*strategy, step);
    EXPECT_EQ(trains, rank.rank() % most < learners);
    if (trains && !trained)
      found.starts_from_centre &=
          copy_of(replica.weight_span()) == copy_of(strategy->memories()[0].values);
    trained = trains;
    rank.clock.charge(seconds[learners - 1]);
    std::ranges::fill(replica.gradient_span(), trains ? 0.25f * rank.rank() : std::nanf(""));
    strategy->update(replica, step);
    EXPECT_EQ(strategy->mass(), trains ? 1 : 0);
    if (t == 40) {  // through a checkpoint
      auto restored = make_strategy(spec, crew);
      restored->begin(replica);
      for (std::size_t k = 0; k < 2; ++k)
        copy(restored->memories()[k].values.bytes(), strategy->memories()[k].values.bytes());
      restored->restore(strategy->state());
      strategy = std::move(restored);
    }
  }
  found.settled = found.learners.back();
  return found;
}

TEST(SmaSearch, FindsHowManyLearnersPay) {
  std::vector<Search> found(8);
  run_simulated_fabric(8, [&](Rank& rank) { found[rank.rank()] = search(rank, 4, kStepSeconds); },
                       {});
  for (const Search& each : found) {
    EXPECT_EQ(each.learners, found[0].learners);
    EXPECT_TRUE(each.starts_from_centre);
  }
  const auto at = [&](int step) { return found[0].learners[step]; };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(15), 1);
  EXPECT_EQ(at(16), 2);
  EXPECT_EQ(at(32), 3);
  EXPECT_EQ(at(48), 4);
  EXPECT_EQ(at(64), 3);  // one too many, and that was it
  EXPECT_EQ(found[0].settled, 3);
}

TEST(SmaSearch, StaysWithOneWhereASecondDoesNotPay) {
  constexpr double in_turn[] = {0.1, 0.2};
  std::vector<Search> found(4);
  run_simulated_fabric(4, [&](Rank& rank) { found[rank.rank()] = search(rank, 2, in_turn); }, {});
  EXPECT_EQ(found[0].learners[20], 2);
  EXPECT_EQ(found[3].settled, 1);
}

TEST(SmaSearch, TakesAllWhereAllPay) {
  constexpr double at_once[] = {0.1, 0.1};
  std::vector<Search> found(4);
  run_simulated_fabric(4, [&](Rank& rank) { found[rank.rank()] = search(rank, 2, at_once); }, {});
  EXPECT_EQ(found[3].settled, 2);
}

}  // namespace
}  // namespace lockstep::testing
