// Runs that end by samples of all workers together, or by training time.
#include "train/timetable.h"

#include <gmock/gmock.h>

#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using ::testing::Lt;

std::vector<std::string> of_pace(Pace pace) {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategies())
    if (row.pace == pace) names.emplace_back(row.name);
  return names;
}

std::vector<double> by_worker(const nlohmann::ordered_json& run, const char* what) {
  std::vector<double> all;
  for (const auto& rank : run["workers_detail"])
    if (rank["role"] == "worker") all.push_back(rank[what]);
  return all;
}

TEST(RunEnd, BySamplesInStepIsWithTheStepThatReachesThem) {
  TrainConfig config = config_of("all-reduce", 2);  // 400 samples, 40 a step
  config.samples = 1000;
  EXPECT_EQ(Experiment(config).steps, 25u);
  config.samples = 1001;
  EXPECT_EQ(Experiment(config).steps, 26u);
  config.samples = 400;
  EXPECT_EQ(Experiment(config).steps, 10u);
  config.samples = 1;
  EXPECT_EQ(Experiment(config).steps, 1u);
  config.samples = 1000;
  const auto run = summary_in("loopback", config);
  EXPECT_THAT(by_worker(run, "samples"), Each(500));
  EXPECT_EQ(run["steps"], 25);
  EXPECT_EQ(run["score_by_epoch"].size(), 3u);
}

class InStep : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, InStep, ::testing::ValuesIn(of_pace(Pace::together)), test_name);

// Whatever the clocks of the ranks say, all take the same steps.
TEST_P(InStep, RunsEndTogetherWhenTheTimeIsOver) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,latency=1us,jitter=0.2");
  config.seconds = 0.5;
  const auto run = summary_in("simulated", config);
  EXPECT_THAT(run["train_seconds"].get<double>(), AllOf(Ge(0.5), Lt(0.6)));
  EXPECT_THAT(by_worker(run, "steps"), Each(run["steps"].get<double>()));
  EXPECT_GT(run["steps"].get<int>(), 20);
  EXPECT_TRUE(run["score"].is_number());
}

class EndedApart : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, EndedApart, ::testing::ValuesIn(strategies_that_go_apart()),
                         test_name);

TEST_P(EndedApart, BySecondsNobodyWaitsForTheSlowOne) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,latency=1us,slow=rank1:3.0");
  config.seconds = 0.6;
  config.evaluate_every = 10;
  const auto run = summary_in("simulated", config);
  EXPECT_THAT(run["train_seconds"].get<double>(), AllOf(Ge(0.6), Lt(0.6 + 0.04)));
  const std::vector<double> steps = by_worker(run, "steps");
  if (GetParam() != "ssp") {
    EXPECT_THAT(steps[1], AllOf(Ge(18), Le(21)));
    EXPECT_THAT(steps[0], AllOf(Ge(55), Le(61)));
  }
  EXPECT_EQ(run["steps"], static_cast<int>((steps[0] + steps[1] + steps[2] + steps[3]) / 4 + 0.5));
  EXPECT_GT(run["score"].get<double>(), 0.2);
  EXPECT_GT(run["steady_samples_per_second"].get<double>(), 0);
}

TEST_P(EndedApart, BySamplesWithAboutAsMany) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,latency=1us,slow=rank1:3.0");
  config.samples = 3000;
  const auto run = summary_in("simulated", config);
  double all = 0;
  for (const double samples : by_worker(run, "samples")) all += samples;
  // Every worker may have been in a step, and what it told on its way.
  EXPECT_THAT(all, AllOf(Ge(3000), Le(3000 + 2 * 4 * 20)));
  const std::vector<double> steps = by_worker(run, "steps");
  if (GetParam() != "ssp") {
    EXPECT_GT(steps[0], 2.5 * steps[1]);
  }
  EXPECT_GT(run["score"].get<double>(), 0.2);
}

TEST_P(EndedApart, OnProcessesToo) {
  TrainConfig config = config_of(GetParam(), 3);
  config.samples = 1500;
  for (const std::string world : {"loopback", "shm"}) {
    const auto run = summary_in(world, config);
    double all = 0;
    for (const double samples : by_worker(run, "samples")) all += samples;
    EXPECT_GE(all, 1500) << world;
    EXPECT_TRUE(run["score"].is_number()) << world;
  }
}

TEST_P(EndedApart, WithoutNumbersToo) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,latency=1us,numerics=off,slow=rank1:3.0");
  config.samples = 3000;
  EXPECT_GE(train_in("simulated", config).result.samples, 3000u);
}

// A checkpoint is of a step that all have taken; the run then ends as it would have.
class EndedAndResumed : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Some, EndedAndResumed,
                         ::testing::Values("all-reduce", "parameter-server", "asp", "ssp", "gossip",
                                           "ad-psgd"),
                         test_name);
TEST_P(EndedAndResumed, EndsAsItWouldHave) {
  for (const bool by_time : {true, false}) {
    const TestFolder out;
    TrainConfig config = config_of(GetParam());
    config.cluster = cluster_of(GetParam(), "step=10ms,jitter=0.3,slow=rank1:2.0");
    config.checkpoint_every = 10;
    config.keep = 0;
    config.out = out.path();
    if (by_time)
      config.seconds = 0.5;
    else
      config.samples = 3000;
    const RunFolder folder = RunFolder::create(config, {});
    const auto ended = [&] {
      return in_a_process([&] {
        WorkerOptions options;
        options.folder = &folder;
        const TrainResult result = train_in("simulated", config, options).result;
        std::string text = fmt::format("{} {}", result.model_sha256, result.samples);
        for (const auto& rank : result.ranks) text += " " + rank["steps"].dump();
        return text + fmt::format(" {:.12g}", result.steady->samples_per_second);
      });
    };
    const std::string whole = ended();
    EXPECT_GT(whole.size(), 64u);
    config.resume = folder.checkpoint(10);
    EXPECT_EQ(ended(), whole) << (by_time ? "by time" : "by samples");
  }
}

}  // namespace
}  // namespace lockstep::testing
