// Runs whose workers go apart: scored without being stopped, and going on without who is lost.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::MatchesRegex;
using ::testing::SizeIs;

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
    return in_a_process([&] {
      const TrainResult result = train_in("simulated", config).result;
      std::string text = result.model_sha256;
      for (const Score& score : result.scores) text += "\n" + to_json(score).dump();
      return text;
    });
  };
  const std::string first = once();
  EXPECT_GT(first.size(), 64 + 3 * 100u);
  EXPECT_EQ(first, once());
}

TEST(ApartScores, AreToldWithTheEpochTheyAreOf) {
  struct Told final : Watcher {
    void notice(const std::string&) override {}
    void step(const Progress&) override {}
    void score(const Score&, int epoch) override { epochs.push_back(epoch); }
    std::vector<int> epochs;
  } told;
  WorkerOptions options;
  options.watcher = &told;
  train_in("loopback", config_of("gossip"), options);
  EXPECT_THAT(told.epochs, ::testing::ElementsAre(0, 1, 2));
}

// Notes when scores come, and what of them is on disk.
struct Follower final : Watcher {
  explicit Follower(const std::string& folder) : metrics(folder + "/metrics.jsonl") {}
  void notice(const std::string&) override {}
  void step(const Progress& progress) override {
    steps = progress.step;
    std::ifstream in(metrics);
    scores_on_disk.push_back(static_cast<int>(std::count(std::istreambuf_iterator(in), {}, '\n')));
  }
  void score(const Score& score, int) override { told.push_back({score.steps, steps}); }
  const std::string metrics;
  std::uint64_t steps = 0;
  std::vector<int> scores_on_disk;                            // after each of rank 0's steps
  std::vector<std::pair<std::uint64_t, std::uint64_t>> told;  // a score's steps, and rank 0's then
};

TEST_P(Apart, ScoresAreKeptWhenTheyAreTaken) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms");
  config.evaluate_every = 2;
  const TestFolder out;
  config.out = out.path();
  const RunFolder folder = RunFolder::create(config, {});
  Follower follower(folder.path());
  WorkerOptions options;
  options.watcher = &follower;
  options.folder = &folder;
  train_in("simulated", config, options);
  // Of steps 2, 4, 5, 6, 8, 10, 12, 14 and 15: a copy is taken a step later, and the score is told
  // after the next one.
  ASSERT_THAT(follower.told, SizeIs(9));
  for (const auto& [of, at] : follower.told) EXPECT_LE(at, of + 2);
  ASSERT_THAT(follower.scores_on_disk, SizeIs(15));
  EXPECT_GE(follower.scores_on_disk[6 - 1], 1);
  EXPECT_GE(follower.scores_on_disk.back(), 6);
}

// The pacemaker is the slowest: the others rest while it is scored.
TEST_P(Apart, ThoseThatRestHaveAPartInScores) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,slow=rank0:5.0");
  const TrainResult result = train_in("simulated", config).result;
  EXPECT_THAT(result.scores, SizeIs(3));
  for (const Score& score : result.scores) {
    EXPECT_GT(score.train_loss, 0);
    EXPECT_GT(score.accuracy, 0.1);
  }
}

// Its jobs of scores end with the rank, at that operation of theirs.
class KilledInScores final : public Background {
 public:
  KilledInScores(Background& inner, const Fault& fault)
      : inner_(inner), lane_(std::make_shared<Lane>(fault)) {}
  std::uint64_t post(Job job) override {
    return inner_.post([lane = lane_, job = std::move(job)](Transport& below) {
      if (!lane->faulty) lane->faulty.emplace(below, std::vector{lane->fault}, 1, Sleep());
      job(*lane->faulty);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  struct Lane {
    explicit Lane(const Fault& f) : fault(f) {}
    const Fault fault;
    std::optional<Faulty> faulty;
  };
  Background& inner_;
  const std::shared_ptr<Lane> lane_;  // a job's too: one may outlive who posted it
};

class KilledWhileScored : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Some, KilledWhileScored,
                         ::testing::Values("asp", "easgd", "gossip", "ad-psgd"), test_name);

TEST_P(KilledWhileScored, AWorkerCostsNoMoreThanThat) {
  TrainConfig config = config_of(GetParam(), 3);
  config.data = "digits:samples=300,test_samples=100";
  config.cluster = cluster_of(GetParam(), "step=10ms,jitter=0.1");
  complete(config);
  for (const int rank : {0, 1, 2})
    for (std::uint64_t after = 1; after < 90; after += after < 20 ? 1 : 7) {
      const std::string text = in_a_process([&] {
        const Experiment experiment(config, {});
        std::string said;
        run_simulated(experiment.simulation->cluster, [&](Rank& outer) {
          KilledInScores scoring(*outer.scoring, {Fault::Kind::kill, rank, after});
          Rank inner{outer.peers, outer.clock, outer.background, outer.lock, outer.seed, &scoring};
          const WorkerOutcome mine = train(inner, experiment, {});
          if (!mine.leads) return;
          std::vector<std::uint64_t> steps;
          for (const Score& score : mine.result.scores) steps.push_back(score.steps);
          said = fmt::format("lost {}, scores {}", fmt::join(mine.result.lost, " "),
                             fmt::join(steps, " "));
        });
        return said;
      });
      EXPECT_THAT(text, MatchesRegex(fmt::format("lost {}?, scores (5 )?(10 )?15", rank)))
          << "killed after " << after << " operations";
    }
}

// The first of six workers has no samples, and the others have 8 to 20 of 40.
TEST_P(Apart, AWorkerWithoutSamplesDoesNotSetThePaceOfScores) {
  TrainConfig config = config_of(GetParam(), 6);
  config.data = "digits:samples=40,test_samples=20";
  config.split = "dirichlet:alpha=0.01";
  config.batch = 2;
  config.cluster = GetParam() == "hogwild" ? "sim:ranks_per_host=6,step=10ms" : "sim:step=10ms";
  const TrainResult result = train_in("simulated", config).result;
  EXPECT_EQ(result.ranks[0]["samples"], 0);
  ASSERT_THAT(result.scores, SizeIs(3));
  double before_s = 0;
  for (const Score& score : result.scores) {
    EXPECT_GE(score.training_s, before_s + 0.04);
    before_s = score.training_s;
  }
}

// Where all meet for checkpoints every five steps, they go at the pace of the slowest.
TEST(ApartRates, CountTheWaitForOthersAtCheckpoints) {
  TrainConfig config = config_of("asp");
  config.steps = 60;
  config.epochs = 0;
  config.cluster = "sim:step=10ms,slow=rank1:3.0";
  const auto rates = [&](bool checkpoints) {
    const std::string said = in_a_process([&] {
      const TestFolder out;
      const RunFolder folder(out.path());
      WorkerOptions options;
      options.folder = &folder;
      if (checkpoints) config.checkpoint_every = 5;
      const TrainResult result = train_in("simulated", config, options).result;
      return fmt::format("{} {}", result.steady->samples_per_second,
                         summary(config, result)["samples_per_second"].get<double>());
    });
    std::istringstream in(said);
    std::pair<double, double> pair;
    in >> pair.first >> pair.second;
    return pair;
  };
  const auto [apart, apart_in_all] = rates(false);
  EXPECT_GT(apart, 2 * apart_in_all);
  const auto [meeting, meeting_in_all] = rates(true);
  EXPECT_NEAR(meeting / meeting_in_all, 1, 0.05);
  EXPECT_NEAR(meeting_in_all / apart_in_all, 1, 0.05);
}

// What ends while a worker computes has been hidden, whoever looks at it when.
class ApartHidden : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Servers, ApartHidden, ::testing::Values("ssp:staleness=50", "downpour"),
                         test_name);
TEST_P(ApartHidden, ExchangesAreCounted) {
  TrainConfig config = config_of(GetParam(), 2);
  config.steps = 40;
  config.epochs = 0;
  config.cluster = "sim:step=100ms,latency=20ms";
  const auto run = summary_in("simulated", config);
  for (int w = 0; w < 2; ++w)
    EXPECT_GT(run["workers_detail"][w]["hidden_seconds"].get<double>(), 0.7) << w;
}

TEST_P(Apart, EveryExchangeIsProved) {
  TrainConfig config = config_of(GetParam());
  config.audit = GetParam() != "hogwild";  // which has no exchanges
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

TEST_P(Apart, GoesOnWithoutWhoIsLost) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms,jitter=0.1");
  for (const int lost : {2, 1, 0}) {
    const std::string text = in_a_process([&] {
      const TrainResult result = with_deaths(config, {{lost, 0.075}});
      std::string scores;
      for (const Score& score : result.scores) scores += fmt::format(" {}", score.steps);
      return fmt::format("lost {}, {} samples, scores{}", fmt::join(result.lost, " "),
                         result.samples, scores);
    });
    EXPECT_EQ(text, fmt::format("lost {}, 900 samples, scores 5 10 15", lost));
  }
}

// When it died does not matter: also where all meet.
TEST(Servers, ThatAreLostAreNamedWithWhatTheyHeld) {
  TrainConfig config = config_of("asp", 2);
  config.servers = 2;
  config.checkpoint_every = 5;
  config.cluster = "sim:step=10ms";
  const TestFolder out;
  const RunFolder folder(out.path());
  for (const std::string strategy : {"asp", "parameter-server"})
    for (double at_s = 0.01; at_s < 0.14; at_s += 0.01) {
      config.strategy = strategy;
      const std::string said = in_a_process([&] {
        WorkerOptions options;
        options.folder = &folder;
        try {
          train_in("simulated", config, options, [&](SimulatedCluster& cluster) {
            cluster.deaths = {{3, at_s}};
          });
          return std::string("nothing");
        } catch (const TransportError& e) {
          return fmt::format("{}: {}", e.peer(), e.what());
        }
      });
      EXPECT_THAT(said, MatchesRegex("3: server 1 .rank 3., which held parameters .* is gone: .*"))
          << strategy << " at " << at_s;
    }
}

// Of 60 steps the last four end no sum of seven: they reach the model when the run is over, also
// where there were checkpoints, before which the sum is kept.
TEST(ApartEnds, DownpourPushesWhatIsLeft) {
  TrainConfig config = config_of("all-reduce", 1);
  const Score plain = train_in("loopback", config).result.scores.back();
  EXPECT_EQ(plain.steps, 60u);
  config.strategy = "downpour:push=7,fetch=100";
  config.audit = true;
  EXPECT_NEAR(train_in("loopback", config).result.scores.back().loss, plain.loss, 1e-5);
  const TestFolder out;
  const RunFolder folder(out.path());
  WorkerOptions options;
  options.folder = &folder;
  config.checkpoint_every = 8;
  EXPECT_NEAR(train_in("loopback", config, options).result.scores.back().loss, plain.loss, 1e-5);
}

TEST(ApartServers, WaitForScoresAsLongAsTheyTake) {
  TrainConfig config = config_of("asp", 2);
  config.evaluate_every = 1;
  config.checkpoint_every = 15;
  config.cluster = "sim:step=10ms,bandwidth=1Mbps";
  const TestFolder out;
  const RunFolder folder(out.path());
  WorkerOptions options;
  options.folder = &folder;
  // A copy of the weights would take more than 0.4 s.
  const TrainResult result = train_in("simulated", config, options, [](SimulatedCluster& cluster) {
                               cluster.patience_s = 4;
                             }).result;
  EXPECT_THAT(result.scores, SizeIs(30));
  EXPECT_TRUE(result.lost.empty());
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
