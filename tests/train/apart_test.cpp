// Runs whose workers go apart: scored without being stopped, and going on without who is lost.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "strategies/registry.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
namespace fs = std::filesystem;

std::vector<std::string> strategies_that_go_apart() {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategies())
    if (row.goes_apart()) names.emplace_back(row.name);
  return names;
}

TrainConfig config_of(const std::string& strategy, int workers = 4) {
  TrainConfig config = small_config();
  config.strategy = strategy;
  config.workers = workers;
  config.epochs = 3;
  config.optimizer = "sgd:lr=0.05";
  return config;
}

// Hogwild's workers share a host's memory.
std::string cluster_of(const std::string& strategy, const std::string& more) {
  return fmt::format("sim:{}{}", strategy == "hogwild" ? "ranks_per_host=4," : "", more);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

class Apart : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, Apart, ::testing::ValuesIn(strategies_that_go_apart()), test_name);

TEST_P(Apart, ASlowWorkerHoldsNobodyUpButByTheRule) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,slow=rank1:3.0");
  const auto run = summary_in("simulated", config);
  EXPECT_THAT(run["score_by_epoch"], SizeIs(3));
  EXPECT_GT(run["score"].get<double>(), 0.2);
  EXPECT_EQ(run["lost"], nlohmann::ordered_json::array());
  double slow = 0, fast = 0;
  for (const auto& rank : run["workers_detail"]) {
    if (rank["role"] != "worker") continue;
    EXPECT_EQ(rank["samples"], 300);
    (rank["rank"] == 1 ? slow : fast) = rank["samples_per_second"].get<double>();
  }
  if (GetParam() != "ssp") {
    EXPECT_GT(fast, 2.5 * slow);
  }
}

TEST_P(Apart, TheSameSeedGivesTheSameBitsInSimulation) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,jitter=0.3,slow=rank1:2.0");
  const auto once = [&] {
    // A simulation a process.
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) throw_errno("pipe");
    const pid_t child = fork();
    if (child == 0) {
      const std::string sum = train_in("simulated", config).result.model_sha256;
      (void)!write(pipe_ends[1], sum.data(), sum.size());
      _exit(0);
    }
    close(pipe_ends[1]);
    std::string sum(64, ' ');
    const ssize_t got = read(pipe_ends[0], sum.data(), sum.size());
    close(pipe_ends[0]);
    waitpid(child, nullptr, 0);
    return got == 64 ? sum : std::string();
  };
  const std::string first = once();
  EXPECT_THAT(first, SizeIs(64));
  EXPECT_EQ(first, once());
}

TEST_P(Apart, EveryExchangeIsProved) {
  TrainConfig config = config_of(GetParam());
  config.audit = true;
  for (const std::string world : {"loopback", "shm"})
    EXPECT_NO_THROW(train_in(world, config)) << world;
}

// Not easgd, whose model is the centre that follows the worker, nor ssp, whose server adds changes,
// which is rounded once more.
class ApartAndExact : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Some, ApartAndExact,
                         ::testing::Values("asp", "downpour", "gossip", "hogwild", "ad-psgd"),
                         test_name);
TEST_P(ApartAndExact, OneWorkerIsPlainSgd) {
  TrainConfig alone = config_of(GetParam(), 1), plain = config_of("all-reduce", 1);
  EXPECT_EQ(train_in("loopback", alone).result.model_sha256,
            train_in("loopback", plain).result.model_sha256);
}

TEST_P(Apart, ResumesWithAllItHad) {
  TrainConfig config = config_of(GetParam(), 1);
  config.out = (fs::path(::testing::TempDir()) / ("lockstep_apart_" + GetParam())).string();
  fs::remove_all(config.out);
  config.checkpoint_every = 20;
  config.evaluate_every = 10;
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult whole = train_in("loopback", config, options).result;
  config.resume = folder.checkpoint(20);
  const TrainResult resumed = train_in("loopback", config, {}).result;
  EXPECT_EQ(resumed.model_sha256, whole.model_sha256);
  ASSERT_EQ(resumed.scores.size(), whole.scores.size());
  for (std::size_t i = 0; i < whole.scores.size(); ++i) {
    EXPECT_EQ(resumed.scores[i].steps, whole.scores[i].steps);
    EXPECT_DOUBLE_EQ(resumed.scores[i].accuracy, whole.scores[i].accuracy);
  }
  fs::remove_all(config.out);
}

TEST_P(Apart, GoesOnWithoutWhoIsLost) {
  for (const int lost : {2, 1, 0}) {
    // Of threads the memory goes with its owner; of processes others have it mapped.
    if (GetParam() == "hogwild" && lost == 0) continue;
    TrainConfig config = config_of(GetParam());
    complete(config);
    check(config);
    const Experiment experiment(config, {});
    std::mutex turn;
    WorkerOptions options;
    options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
    TrainResult result;
    run_loopback(config.ranks(), [&](Rank& rank) {
      int steps = 0;
      WorkerOptions mine = options;
      mine.stopped = [&] { return rank.rank() == lost && ++steps == 5; };
      try {
        WorkerOutcome outcome = train(rank, experiment, mine);
        if (outcome.leads) result = outcome.result;
      } catch (const Stopped&) {  // it goes away without a word
      }
    });
    EXPECT_THAT(result.lost, ElementsAre(lost));
    EXPECT_EQ(result.samples, 900u);
    ASSERT_FALSE(result.scores.empty());
    EXPECT_EQ(result.scores.back().steps, experiment.steps);
  }
}

TEST_P(Apart, HollowRunsKnowTimesAndBytes) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=100ms,numerics=off");
  config.model = "resnet50";
  config.data = "synthetic:shape=3x224x224,classes=1000,samples=640";
  config.steps = 5;
  const auto run = summary_in("simulated", config);
  EXPECT_TRUE(run["score"].is_null());
  EXPECT_GT(run["samples_per_second"].get<double>(), 0);
}

TEST(ApartServers, LiveWithTheirWorkersWhereTheyAreColocated) {
  TrainConfig config = config_of("asp");
  config.servers = 4;
  config.server_placement = "colocated";
  config.cluster = "sim:step=10ms";
  EXPECT_EQ(config.ranks(), 8);
  const auto run = summary_in("simulated", config);
  ASSERT_THAT(run["workers_detail"], SizeIs(8));
  for (int k = 0; k < 4; ++k)
    EXPECT_EQ(run["workers_detail"][4 + k]["host"], run["workers_detail"][k]["host"]);
}

}  // namespace
}  // namespace lockstep::testing
