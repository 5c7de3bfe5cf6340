// The theory of step-wise averaging, on its flows and on what it does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "strategies/training.h"

namespace lockstep::testing {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The strategy of a crew of m workers, on rank 0. Its flows need no messages.
void with_strategy(const std::string& spec, int m, const std::function<void(Strategy&)>& body) {
  run_loopback(m, [&](Rank& rank) {
    if (rank.rank() != 0) return;
    const Crew crew{rank, m, 0, false, all_reduce_named("ring")};
    body(*make_strategy(spec, crew));
  });
}

Matrix map_at(const Strategy& strategy, std::uint64_t t, int m, std::size_t part = 0) {
  const auto samples = even_samples(m);
  Matrix rows;
  for (int r = 0; r < m; ++r)
    rows.push_back(strategy.parts().statement->flows({t, 0, samples}, r, m).at(part).weights);
  return rows;
}

Matrix times(const Matrix& a, const Matrix& b) {
  const std::size_t m = a.size();
  Matrix out(m, std::vector<double>(m));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < m; ++k)
      if (a[i][k] != 0)
        for (std::size_t j = 0; j < m; ++j) out[i][j] += a[i][k] * b[k][j];
  return out;
}

// What a perturbation that each worker makes in step t is worth to all of them in the end: by
// position in that step's order, which the map itself tells (position k mixes k + 1 workers).
std::vector<double> influence(const Strategy& strategy, std::uint64_t t, int m) {
  const Matrix first = map_at(strategy, t, m);
  Matrix product = first;
  for (std::uint64_t s = t + 1; s < t + 150; ++s) product = times(map_at(strategy, s, m), product);
  std::vector<double> by_position(m);
  for (int w = 0; w < m; ++w) {
    const auto mixed_from = std::ranges::count_if(first[w], [](double f) { return f != 0; });
    by_position[mixed_from - 1] = product[0][w];
    for (int r = 1; r < m; ++r) EXPECT_NEAR(product[r][w], product[0][w], 1e-9);
  }
  return by_position;
}

double sum_of_squares(const std::vector<double>& p) {
  return std::inner_product(p.begin(), p.end(), p.begin(), 0.0);
}

void expect_influence(const std::string& start, const std::function<double(int m, int j)>& law,
                      const std::function<double(int m)>& effective_workers) {
  for (const int m : {2, 3, 4, 8, 16})
    with_strategy("step-wise:form=token,start=" + start, m, [&](Strategy& strategy) {
      for (const std::uint64_t t : {0, 1, 5}) {
        const auto p = influence(strategy, t, m);
        for (int j = 0; j < m; ++j) EXPECT_NEAR(p[j], law(m, j), 5e-4) << m << " " << j;
        EXPECT_NEAR(1 / sum_of_squares(p), effective_workers(m), 5e-4) << m << " workers";
      }
    });
}

double harmonic(int m) {
  double h = 0;
  for (int k = 1; k <= m; ++k) h += 1.0 / k;
  return h;
}

TEST(StepWiseTheory, AFixedStartFollowsTheFirstWorkerAlone) {
  expect_influence(
      "fixed", [](int, int j) { return j == 0; }, [](int) { return 1; });
}

TEST(StepWiseTheory, BackwardInfluenceIsHarmonic) {
  expect_influence(
      "backward", [](int m, int j) { return 1 / (harmonic(m) * (j + 1)); },
      [](int m) {
        double squares = 0;
        for (int k = 1; k <= m; ++k) squares += 1.0 / k / k;
        return harmonic(m) * harmonic(m) / squares;
      });
}

TEST(StepWiseTheory, ZigzagInfluenceFallsEvenly) {
  expect_influence(
      "zigzag", [](int m, int j) { return 2.0 * (m - j) / (m * (m + 1)); },
      [](int m) { return 3.0 * m * (m + 1) / (2 * (2 * m + 1)); });
}

// A worker at position k comes at k - 1 next. So p(j) - p(j+1) = p(j-1)/(j+1), from the last one
// up.
std::vector<double> forward_influence(int m) {
  std::vector<double> p(m + 1);
  p[m - 1] = 1;
  for (int j = m - 1; j > 0; --j) p[j - 1] = (j + 1) * (p[j] - p[j + 1]);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

TEST(StepWiseTheory, ForwardInfluenceTendsToOneOverEFactorial) {
  expect_influence(
      "forward", [](int m, int j) { return forward_influence(m)[j]; },
      [](int m) { return 1 / sum_of_squares(forward_influence(m)); });
  const std::map<int, double> table = {{2, 1.80}, {3, 2.46}, {4, 2.91}, {8, 3.24}, {32, 3.24}};
  for (const auto& [m, expected] : table)
    EXPECT_NEAR(1 / sum_of_squares(forward_influence(m)), expected, 5e-3) << m;
  const double limit = std::exp(2) / 2.2795853023360673;  // e² / I0(2)
  EXPECT_NEAR(1 / sum_of_squares(forward_influence(16)), limit, 5e-4);
  for (int j = 0; j < 16; ++j)
    EXPECT_NEAR(forward_influence(16)[j], 1 / (M_E * std::tgamma(j + 1)), 5e-4);
}

TEST(StepWiseTheory, RandomOrderIsWorthHalfTheWorkers) {
  const std::map<int, double> table = {{2, 1.5}, {4, 2.6}, {8, 4.7}};
  for (const auto& [m, expected] : table)
    with_strategy("step-wise:form=token,start=random", m,
                  [&, m = m, expected = expected](Strategy& strategy) {
                    double squares = 0;
                    const int draws = 60;
                    for (int t = 0; t < draws; ++t)
                      squares += sum_of_squares(influence(strategy, t, m)) / draws;
                    EXPECT_NEAR(1 / squares, expected, 0.1 * expected);
                  });
}

TEST(StepWiseTheory, AChunkIsATokenWithShiftedRanks) {
  const int m = 5;
  for (const std::string start : {"fixed", "forward", "backward", "zigzag", "random"})
    with_strategy("step-wise:form=token,start=" + start, m, [&](Strategy& token) {
      Matrix expected[3];
      for (int t = 0; t < 3; ++t) expected[t] = map_at(token, t, m);
      with_strategy("step-wise:form=chunked,start=" + start, m, [&](Strategy& chunked) {
        for (int t = 0; t < 3; ++t)
          for (int c = 0; c < m; ++c) {
            const Matrix map = map_at(chunked, t, m, c);
            for (int r = 0; r < m; ++r)
              for (int j = 0; j < m; ++j)
                EXPECT_EQ(map[(r + c) % m][(j + c) % m], expected[t][r][j]) << start;
          }
      });
    });
}

// Worker i has the loss (w-i)²/2, so the best w is 1.5. Returns the mean model over workers and
// late steps.
double settles_at(const std::string& start) {
  const int steps = 400;
  std::vector<double> sums(4);
  run_loopback(4, [&](Rank& rank) {
    const Crew crew{rank, 4, 0, false, all_reduce_named("ring")};
    const auto strategy = make_strategy("step-wise:form=token,start=" + start, crew);
    ToyReplica replica(nullptr, Memory::plain, 1, 0.1f);
    const auto samples = even_samples(4);
    for (int t = 0; t < steps; ++t) {
      replica.gradient_span()[0] = replica.weight_span()[0] - static_cast<float>(rank.rank());
      strategy->update(replica, {static_cast<std::uint64_t>(t), 0, samples});
      if (t >= steps / 2) sums[rank.rank()] += replica.weight_span()[0];
    }
  });
  return (sums[0] + sums[1] + sums[2] + sums[3]) / 4 / (steps / 2);
}

TEST(StepWiseTheory, OnUnlikeDataAFixedStartMissesTheOptimum) {
  EXPECT_NEAR(settles_at("fixed"), 0.136, 5e-4);
  for (const std::string start : {"forward", "backward", "zigzag"})
    EXPECT_NEAR(settles_at(start), 1.5, 5e-4) << start;
}

TEST(StepWise, PositionKHoldsAKthOfEachWorkerBefore) {
  run_loopback(5, [](Rank& rank) {
    const Crew crew{rank, 5, 0, false, all_reduce_named("ring")};
    const auto strategy = make_strategy("step-wise:form=token,start=forward", crew);
    for (const int t : {0, 3}) {
      ToyReplica replica(nullptr, Memory::plain, 5, 0.5f);
      replica.weight_span()[rank.rank()] = 1;
      const auto samples = even_samples(5);
      strategy->update(replica, {static_cast<std::uint64_t>(t), 0, samples});
      const int k = (rank.rank() - t + 5) % 5;
      for (int i = 0; i < 5; ++i) {
        const int position = (i - t + 5) % 5;
        EXPECT_EQ(replica.weight_span()[i], position <= k ? 1.0f / static_cast<float>(k + 1) : 0);
      }
    }
  });
}

Training of(const std::string& spec, int workers = 4) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  t.samples = even_samples(workers);
  t.whole_numbers = false;
  t.momentum = 0.9f;
  t.count = 101;
  t.steps = 4;
  return t;
}

TEST(StepWise, TheLastPositionHasTheBitsOfAllReduce) {
  Training token = of("step-wise:form=token,start=fixed"), chunked = of("step-wise:start=fixed"),
           ring_reduce = of("all-reduce:average=weights"), ring = ring_reduce;
  for (Training* t : {&token, &chunked, &ring_reduce, &ring}) t->steps = 1;
  ring_reduce.collective = "ring-reduce";
  const auto outcomes = run_all(strategy_worlds()[0], {token, chunked, ring_reduce, ring});
  const auto after = [&](int which, int rank) { return outcomes[which][rank].steps[0].after; };
  EXPECT_TRUE(same_bits(after(0, 3), after(2, 3)));
  for (int r = 0; r < 4; ++r) {
    const Slice last = chunk(101, 4, (r + 1) % 4);
    for (std::size_t i = last.begin; i < last.end(); ++i)
      EXPECT_EQ(after(1, r)[i], after(3, r)[i]) << r << " " << i;
  }
}

TEST(StepWise, WithAFixedStartWorker0TrainsAlone) {
  const Training token = of("step-wise:form=token,start=fixed"),
                 chunked = of("step-wise:start=fixed");
  const auto outcomes = run_all(strategy_worlds()[0], {token, chunked});
  Training alone = token;
  alone.workers = 1;
  const auto expected = one_big_batch(alone);
  for (int t = 0; t < token.steps; ++t) {
    EXPECT_TRUE(same_bits(outcomes[0][0].steps[t].after, expected[t]));
    const Slice first = chunk(101, 4, 0);
    for (std::size_t i = first.begin; i < first.end(); ++i)
      EXPECT_EQ(outcomes[1][0].steps[t].after[i], expected[t][i]);
  }
}

TEST(StepWise, SendsExactlyHalfOfTheRing) {
  for (const int m : {2, 3, 4, 5})
    with_strategy("step-wise", m, [&](Strategy& strategy) {
      const auto samples = even_samples(m);
      const Place place{std::vector<int>(m, 0)};
      for (const std::uint64_t t : {0, 1, 2})
        for (const std::size_t count : {60, 101}) {
          std::uint64_t total = 0, ring = 0;
          for (int r = 0; r < m; ++r) {
            const std::uint64_t sent =
                strategy.parts().statement->bytes_sent({t, 0, samples}, r, count);
            EXPECT_TRUE(count % m != 0 || 2 * sent == ring_sent(count, place, r) * 4) << m;
            total += sent;
            ring += ring_sent(count, place, r) * 4;
          }
          EXPECT_EQ(2 * total, ring);
        }
    });
}

}  // namespace
}  // namespace lockstep::testing
