// Elastic averaging: what an exchange conserves, and where springs lead.
#include "central_cases.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Workers part in their first step and are left to the springs from then on.
void first_step_only(int w, int t, std::span<const float> weights, std::span<float> out) {
  whole_gradient(w, t, weights, out);
  if (t > 0) std::ranges::fill(out, 0.0f);
}

float first_weight(std::size_t i) { return static_cast<float>(i % 7); }

class Easgd : public ::testing::TestWithParam<World> {};

TEST_P(Easgd, SpringsConserveTheSumOfWorkersAndCentre) {
  std::vector<ApartTraining> trainings;
  for (const char* mode : {"async", "sync"})
    for (const int workers : {1, 2, 4}) {
      trainings.push_back(apart(fmt::format("easgd:mode={},beta=0.9,period=1", mode), workers, 2));
      trainings.back().gradient = first_step_only;
      trainings.back().audit = true;
    }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  for (std::size_t n = 0; n < outcomes.size(); ++n) {
    expect_all_got_the_model(trainings[n], outcomes[n]);
    int moved = 0;
    for (std::size_t i = 0; i < trainings[n].count; ++i) {
      double before = first_weight(i), after = outcomes[n][0].model[i];
      for (int w = 0; w < trainings[n].workers; ++w) {
        Floats gradient(trainings[n].count);
        whole_gradient(w, 0, {}, gradient);
        before += first_weight(i) - trainings[n].rate * gradient[i];
        after += outcomes[n][w].rested[i];
      }
      EXPECT_NEAR(after, before, 1e-4) << n << " " << i;
      moved += outcomes[n][0].model[i] != first_weight(i);
    }
    EXPECT_GT(moved, 10);
  }
}

TEST_P(Easgd, WithBetaOneTheCentreIsTheMeanOfAllWorkers) {
  ApartTraining t = apart("easgd:mode=sync,beta=1,tau=1", 4, 3);
  t.gradient = first_step_only;
  t.steps = 2;
  const auto outcome = run_apart(GetParam(), t);
  for (std::size_t i = 0; i < t.count; ++i) {
    float sum = 0;
    for (int w = 0; w < 4; ++w) sum += outcome[w].after[0][i];
    EXPECT_EQ(outcome[0].model[i], sum / 4) << i;
    EXPECT_NE(outcome[0].after[0][i], outcome[1].after[0][i]) << i;
  }
}

TEST_P(Easgd, WithoutSpringsWorkersAreIndependentSgd) {
  ApartTraining t = apart("easgd:beta=0,period=2", 2, 1);
  t.momentum = 0.9f;
  t.gradient = [](int, int step, auto weights, auto out) { rough_gradient(0, step, weights, out); };
  const auto outcome = run_apart(GetParam(), t);
  const auto expected = alone(t);
  for (int w = 0; w < 2; ++w)
    for (int s = 0; s < t.steps; ++s)
      EXPECT_TRUE(same_bits(outcome[w].after[s], expected[s])) << w << " " << s;
  for (std::size_t i = 0; i < t.count; ++i) EXPECT_EQ(outcome[0].model[i], first_weight(i));
}

TEST_P(Easgd, InSyncAllOfARoundStartFromTheSameCentre) {
  ApartTraining t = apart("easgd:mode=sync,beta=0.5,period=2", 2, 2);
  t.steps = 6;  // so few that all is exact: a = 1/4, eta = 1/4
  const auto outcome = run_apart(GetParam(), t);
  std::vector<Floats> x(2, Floats(t.count));
  Floats z(t.count);
  for (std::size_t i = 0; i < t.count; ++i) x[0][i] = x[1][i] = z[i] = first_weight(i);
  for (int step = 0; step < t.steps; ++step) {
    const Floats old = z;
    for (int w = 0; w < 2; ++w) {
      ToyReplica replica(nullptr, Memory::plain, t.count, t.rate);
      std::ranges::copy(x[w], replica.weight_span().begin());
      compute_gradient(t, w, step, replica);
      for (std::size_t i = 0; i < t.count; ++i) {
        const float d = step % 2 == 1 ? 0.25f * (x[w][i] - old[i]) : 0;
        x[w][i] = x[w][i] - t.rate * replica.gradient_span()[i] - d;
        z[i] += d;
      }
      EXPECT_TRUE(same_bits(outcome[w].after[step], x[w])) << step << " " << w;
    }
  }
  EXPECT_TRUE(same_bits(outcome[0].model, z));
  EXPECT_TRUE(same_bits(outcome[1].rested, x[1]));  // a worker goes on with its own
  EXPECT_THAT(outcome[2].contributions.staleness, ElementsAre(6));
  EXPECT_THAT(outcome[2].contributions.weight, ElementsAre(0.75, 0.75));
}

// It stays where it was, and the centre goes where the others draw it.
TEST_P(Easgd, AWorkerWithoutSamplesTakesNoPart) {
  std::vector<ApartTraining> trainings;
  for (const char* mode : {"async", "sync"}) {
    trainings.push_back(apart(fmt::format("easgd:beta=0.9,period=2,mode={}", mode), 3, 1));
    trainings.back().samples = {4, 4, 0};
    trainings.back().momentum = 0.9f;
    trainings.back().audit = true;
    trainings.back().gradient = [](int w, int step, auto weights, auto out) {
      rough_gradient(w, step, weights, out);
      if (w == 2) std::ranges::fill(out, 0.f);
    };
  }
  const auto outcomes = run_apart_all(GetParam(), trainings);
  for (const ApartOutcome& outcome : outcomes) {
    for (std::size_t i = 0; i < trainings[0].count; ++i) {
      EXPECT_EQ(outcome[2].after.back()[i], first_weight(i));
      EXPECT_NE(outcome[0].after.back()[i], first_weight(i));
    }
    EXPECT_THAT(outcome[3].contributions.weight, SizeIs(2));
    EXPECT_EQ(outcome[3].contributions.count, 20u) << "ten of each worker that has samples";
  }
  EXPECT_EQ(outcomes[0][2].exchanged.bytes_sent, 0u);
}

TEST_P(Easgd, WithMomentumTheGradientIsTakenAhead) {
  ApartTraining t = apart("easgd:beta=0,period=4,momentum=0.5", 1, 1);
  t.gradient = rough_gradient;
  const auto outcome = run_apart(GetParam(), t);
  Floats x(t.count), v(t.count), ahead(t.count), g(t.count);
  for (std::size_t i = 0; i < t.count; ++i) ahead[i] = x[i] = first_weight(i);
  for (int step = 0; step < t.steps; ++step) {
    rough_gradient(0, step, ahead, g);
    for (std::size_t i = 0; i < t.count; ++i) {
      v[i] = 0.5f * v[i] - t.rate * g[i];
      x[i] += v[i];
      ahead[i] = x[i] + 0.5f * v[i];
      EXPECT_NEAR(outcome[0].after[step][i], ahead[i], 1e-5) << step << " " << i;
    }
  }
}

TEST_P(Easgd, BytesAreOnePushAndOnePullEveryPeriod) {
  ApartTraining t = apart("easgd", 3, 2);
  const auto outcome = run_apart(GetParam(), t);
  EXPECT_THAT(bytes_sent(outcome),
              ElementsAre(4 * 23 * 5, 4 * 23 * 5, 4 * 23 * 5, 4 * 12 * 15, 4 * 11 * 15));
}

TEST_P(Easgd, GoesOnWithoutAWorkerThatIsGone) {
  ApartTraining t = apart("easgd:period=2", 3, 2);
  t.leaves = 2;
  const auto outcome = run_apart(GetParam(), t);
  expect_all_got_the_model(t, outcome);
  for (const int w : {0, 1}) EXPECT_THAT(outcome[w].after, SizeIs(20));
  EXPECT_EQ(updates_in(outcome[3]), 22u);
}

TEST_P(Easgd, InSyncAWorkerThatIsGoneStopsAll) {
  ApartTraining t = apart("easgd:period=2,mode=sync", 3, 2);
  t.leaves = 2;
  std::vector<std::string> said(t.ranks());
  GetParam().run(
      t.ranks(),
      [&](Rank& rank) {
        try {
          train_apart(t, rank);
        } catch (const TransportError& e) {
          EXPECT_EQ(e.peer(), 2) << e.what();
          said[rank.rank()] = e.what();
        }
      },
      FabricOptions{});
  for (const int w : {0, 1}) EXPECT_THAT(said[w], HasSubstr("rank 2 left"));
  EXPECT_TRUE(said[2].empty());
  for (const int k : {3, 4}) EXPECT_THAT(said[k], HasSubstr("rank 2 is gone"));
}

INSTANTIATE_TEST_SUITE_P(Every, Easgd, ::testing::ValuesIn(strategy_worlds()), world_name);

// Worker 0 exchanges nothing in the step after a meeting; worker 1 does, and that is in the model.
TEST(EasgdRules, TheModelAfterAMeetingIsNotThatOfTheMeeting) {
  constexpr Tag kMoved{Purpose::control, 7};
  run_loopback(3, [&](Rank& rank) {
    const Crew crew{rank, 2, 1, false, all_reduce_named("ring")};
    const auto strategy = make_strategy("easgd:period=2", crew);
    ToyReplica replica(nullptr, Memory::plain, 4, 0.25f);
    strategy->begin(replica);
    const auto samples = even_samples(2);
    const auto step = [&](std::uint64_t t) {
      std::ranges::fill(replica.gradient_span(), 1.f);
      strategy->update(replica, {t, 0, samples});
    };
    const auto model = [&] {
      Floats values(4);
      strategy->parts().apart->fetch_model(Values(values.data(), 4, Type::fp32));
      return values;
    };
    for (const std::uint64_t first : {0, 2}) {
      if (!crew.works()) {
        strategy->parts().serving->serve(replica, {}, first, first + 2);
        continue;
      }
      const Floats met = first > 0 ? model() : Floats();
      step(first);
      char moved = 0;
      if (rank.rank() == 0 && first > 0) {
        rank.peers.wait(rank.peers.recv(1, kMoved, bytes_of(moved)));
        EXPECT_NE(model(), met);
      }
      step(first + 1);
      if (rank.rank() == 1 && first > 0) {
        model();  // an answer: the push before it has been applied
        rank.peers.wait(rank.peers.send(0, kMoved, bytes_of(moved)));
      }
      strategy->parts().apart->rest(replica);
    }
  });
}

TEST(EasgdInSimulation, InSyncTheSlowestSetsThePaceAndOthersWait) {
  ApartTraining t = apart("easgd:period=2,mode=sync", 2, 1);
  t.step_s = {0.1, 0.3};
  const auto outcome = run_apart(simulated_world(), t);
  // Before its last exchange the fast one was let on when the slow one had given nine differences.
  EXPECT_NEAR(outcome[0].trained_s, 18 * 0.3, 1e-3);
  EXPECT_NEAR(outcome[0].waited_s, 18 * 0.3 - 20 * 0.1, 1e-3);
  EXPECT_EQ(outcome[1].waited_s, 0);
}

}  // namespace
}  // namespace lockstep::testing
