// How fast a run went, by one definition for every pace and in both worlds.
#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

double all_samples(const nlohmann::ordered_json& run) {
  double samples = 0;
  for (const auto& rank : run["workers_detail"])
    if (rank["role"] == "worker") samples += rank["samples"].get<double>();
  return samples;
}

class Throughput : public ::testing::TestWithParam<std::string> {};
std::vector<std::string> all_strategies() {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategies()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Every, Throughput, ::testing::ValuesIn(all_strategies()), test_name);

TEST_P(Throughput, IsAllSamplesOverElapsedTime) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,slow=rank1:3.0");
  const auto run = summary_in("simulated", config);
  double longest = 0;
  for (const auto& rank : run["workers_detail"])
    if (rank["role"] == "worker")
      longest = std::max(longest, rank["compute_seconds"].get<double>() +
                                      rank["communicate_seconds"].get<double>() +
                                      rank["wait_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(run["train_seconds"], longest);
  EXPECT_NEAR(run["samples_per_second"].get<double>(), all_samples(run) / longest,
              1e-9 * all_samples(run) / longest);
}

// Fast workers are done after a third of the time: in the window all four are at work. The network
// takes no time to speak of, so that steps take 10 ms, or 30, to a millionth.
TEST_P(Throughput, IsSteadyWhileAllAreAtWork) {
  TrainConfig config = config_of(GetParam());
  config.cluster =
      cluster_of(GetParam(), "step=10ms,latency=1ns,bandwidth=1000000Gbps,slow=rank1:3.0");
  const auto run = summary_in("simulated", config);
  ASSERT_TRUE(run["steady_samples_per_second"].is_number());
  const double steady = run["steady_samples_per_second"];
  EXPECT_GT(run["steady_steps"].get<double>(), 0);
  const auto window = run["steady_window_seconds"];
  EXPECT_LT(window[0].get<double>(), window[1].get<double>());
  if (strategy_named(GetParam()).goes_apart() && GetParam() != "ssp") {
    EXPECT_NEAR(steady, (3 + 1 / 3.0) * 20 / 10e-3, 1e-5 * steady);
  }
  // Those that meet once a period drift apart in between, for longer than this run has.
  const bool in_periods =
      GetParam() == "local-sgd" || GetParam() == "slow-mo" || GetParam() == "diloco";
  if (strategy_named(GetParam()).pace == Pace::together && !in_periods) {
    // In d-psgd worker 3, who is no neighbour of the slow one, ends step t of an epoch when its
    // neighbours have computed it, 10 ms after they ended the one before with the slow one: at
    // 30 (t - 1) + 10 ms, where they end it at 30 t. All meet after each of three epochs of five
    // steps, so its last step ends at 390 ms of its time, and there the window ends, which begins
    // when the slow one has taken two steps, at 60 ms: two thirds of worker 3's third step.
    const double of_each = 330 / 30.0 * 20, of_third = (15 - 2 - 2 / 3.0) * 20;
    const double due = GetParam() == "d-psgd" ? (3 * of_each + of_third) / 330e-3
                                              : run["samples_per_second"].get<double>();
    EXPECT_NEAR(steady, due, 1e-5 * steady);
  }
}

}  // namespace
}  // namespace lockstep::testing
