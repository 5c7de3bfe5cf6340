// D-PSGD beyond the contract of all strategies: its graphs, and what they cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "strategies/audit/audit.h"
#include "strategies/contract.h"

namespace lockstep::testing {
namespace {

Training of(const std::string& spec, int workers = 5) {
  Training t;
  t.make = [spec](const Crew& crew) { return make_strategy(spec, crew); };
  t.workers = workers;
  t.samples = even_samples(workers);
  t.whole_numbers = false;
  t.steps = 6;
  return t;
}

// Row `rank` of M, from the statement of the strategy.
std::vector<double> row_of(const std::string& graph, int workers, int rank) {
  std::vector<double> row;
  run_loopback(workers, [&](Rank& r) {
    if (r.rank() != rank) return;
    const Crew crew{r, workers, 0, false, all_reduce_named("ring")};
    const auto samples = even_samples(workers);
    const Flow flow = make_strategy("d-psgd:graph=" + graph, crew)
                          ->parts()
                          .statement->flows({0, 0, samples}, rank, 7)[0];
    row = flow.before;
    for (int j = 0; j < workers; ++j) row[j] += flow.weights[j];
  });
  return row;
}

TEST(DPsgd, MixesByTheRowsOfThePaper) {
  constexpr double third = 1.0 / 3, fifth = 1.0 / 5;
  const auto is = [](std::vector<double> row) {
    std::vector<::testing::Matcher<double>> near;
    for (const double x : row) near.push_back(::testing::DoubleNear(x, 1e-15));
    return ::testing::ElementsAreArray(near);
  };
  EXPECT_THAT(row_of("ring", 5, 0), is({third, third, 0, 0, third}));
  EXPECT_THAT(row_of("ring", 5, 3), is({0, 0, third, third, third}));
  EXPECT_THAT(row_of("ring", 2, 1), is({0.5, 0.5}));
  EXPECT_THAT(row_of("ring", 1, 0), is({1}));
  // Hops of 1, 2, 4, 8 and back; 8 there is 1 back.
  constexpr double seventh = 1.0 / 7;
  EXPECT_THAT(row_of("exponential", 9, 0),
              is({seventh, seventh, seventh, 0, seventh, seventh, 0, seventh, seventh}));
  EXPECT_THAT(row_of("complete", 5, 2), is({fifth, fifth, fifth, fifth, fifth}));
}

TEST(DPsgd, EveryGraphIsSymmetricAndDoublyStochastic) {
  for (const std::string graph : {"ring", "exponential", "complete"})
    for (int m = 1; m <= 9; ++m) {
      std::vector<std::vector<double>> rows;
      for (int r = 0; r < m; ++r) rows.push_back(row_of(graph, m, r));
      for (int r = 0; r < m; ++r) {
        EXPECT_NEAR(sum_of(rows[r]), 1, 1e-12) << graph << m;
        EXPECT_GT(rows[r][r], 0);
        for (int j = 0; j < m; ++j) EXPECT_EQ(rows[r][j], rows[j][r]) << graph << m;
      }
    }
}

class DPsgdWorlds : public ::testing::TestWithParam<World> {};

// And not only by the flows: the sum of all weights, in numbers that are not whole.
TEST_P(DPsgdWorlds, TheMeanMovesOnlyByTheMeanStep) {
  std::vector<Training> trainings;
  for (const std::string graph : {"ring", "exponential", "complete"})
    trainings.push_back(of("d-psgd:graph=" + graph));
  const auto outcomes = run_all(GetParam(), trainings);
  for (std::size_t n = 0; n < trainings.size(); ++n)
    for (int t = 0; t < trainings[n].steps; ++t)
      for (std::size_t i = 0; i < trainings[n].count; ++i) {
        double due = 0, sum = 0;
        for (const Record& record : outcomes[n]) {
          due += record.steps[t].before[i] - Training::kRate * record.steps[t].gradients[i];
          sum += record.steps[t].after[i];
        }
        EXPECT_NEAR(sum, due, 1e-5);
      }
}

// In the mean of the workers' steps, however many samples each has.
TEST_P(DPsgdWorlds, EverySampleCountsOnce) {
  Training uneven = of("d-psgd:graph=complete"), reduced = of("all-reduce");
  for (Training* training : {&uneven, &reduced}) {
    training->samples = uneven_samples(5);
    training->steps = 1;
  }
  uneven.make = [](const Crew& crew) { return audited(make_strategy("d-psgd", crew), crew); };
  const auto outcomes = run_all(GetParam(), {uneven, reduced});
  for (std::size_t i = 0; i < uneven.count; ++i)
    EXPECT_NEAR(outcomes[0][0].model[i], outcomes[1][0].model[i], 1e-5);
}

TEST_P(DPsgdWorlds, AllToAllFromOneStartIsAllReduce) {
  const Training mixed = of("d-psgd:graph=complete"), reduced = of("all-reduce");
  const auto outcomes = run_all(GetParam(), {mixed, reduced, of("d-psgd:graph=ring")});
  // Weights of different workers differ by their own step; their mean is what all-reduce has.
  const auto distance = [&](const Outcome& a) {
    double most = 0;
    for (std::size_t i = 0; i < mixed.count; ++i)
      most = std::max(most, static_cast<double>(std::abs(a[0].model[i] - outcomes[1][0].model[i])));
    return most;
  };
  EXPECT_LT(distance(outcomes[0]), 1e-5);
  EXPECT_LT(distance(outcomes[2]), 1e-5);  // quadratic losses: any graph keeps the mean
  const auto spread = [](const Outcome& a) {
    return std::abs(a[0].steps.back().after[0] - a[2].steps.back().after[0]);
  };
  EXPECT_LT(spread(outcomes[0]), spread(outcomes[2]));
}

TEST_P(DPsgdWorlds, SendsItsDegreeTimesTheWeights) {
  const std::map<std::string, std::uint64_t> degrees = {
      {"ring", 2}, {"exponential", 6}, {"complete", 8}};
  std::vector<Training> trainings;
  for (const auto& [graph, degree] : degrees) trainings.push_back(of("d-psgd:graph=" + graph, 9));
  const auto outcomes = run_all(GetParam(), trainings);
  auto degree = degrees.begin();
  for (const Outcome& outcome : outcomes) {
    for (const Record& record : outcome)
      for (const Seen& seen : record.steps)
        EXPECT_EQ(seen.sent, degree->second * trainings[0].count * sizeof(float));
    ++degree;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DPsgdWorlds, ::testing::ValuesIn(strategy_worlds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::testing
