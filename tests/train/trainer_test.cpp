// The training loop: what a run promises, whatever the strategy and the world.
#include "train/trainer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "strategies/registry.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

struct Case {
  std::string name, strategy, placement = "dedicated";
  int servers = -1;
  bool plain = true;  // one worker alone is plain SGD, to the bit
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"AllReduce", "all-reduce"},
      {"AllReduceWeights", "all-reduce:average=weights"},
      {"ServersApart", "parameter-server", "dedicated", 2},
      {"ServersWithin", "parameter-server", "colocated", 2},
      {"StepWise", "step-wise"},
      {"StepWiseToken", "step-wise:form=token,start=random"},
      {"LocalSgd", "local-sgd:period=3"},
      {"DPsgd", "d-psgd:graph=ring"},
      {"Sma", "sma", "dedicated", -1, false},
      {"SmaOfThree", "sma:learners=3", "dedicated", -1, false},
      {"SlowMo", "slow-mo:period=3", "dedicated", -1, false},
      {"DiLoCo", "diloco:period=3", "dedicated", -1, false},
  };
  return all;
}

TrainConfig config_of(const Case& c, int workers = 3) {
  TrainConfig config = small_config();
  config.workers = workers;
  config.strategy = c.strategy;
  config.servers = c.servers;
  config.server_placement = c.placement;
  return config;
}

class EveryStrategy : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryStrategy, EndsWithTheSameBitsInEveryWorld) {
  std::set<std::string> sums;
  for (const std::string& world : worlds_of_training())
    sums.insert(train_in(world, config_of(GetParam())).result.model_sha256);
  EXPECT_EQ(sums.size(), 1u);
  EXPECT_FALSE(sums.begin()->empty());
}

TEST_P(EveryStrategy, OneWorkerIsPlainSgdIfItsRuleIs) {
  TrainConfig alone = config_of(GetParam(), 1);
  if (alone.server_placement == "colocated") alone.servers = 1;
  EXPECT_EQ(train_in("loopback", alone).result.model_sha256 ==
                train_in("loopback", config_of(cases()[0], 1)).result.model_sha256,
            GetParam().plain);
}

TEST_P(EveryStrategy, ResumesToTheBit) {
  TrainConfig config = config_of(GetParam());
  config.model = "mnist-cnn";  // draws random numbers in every step
  config.data = "digits:samples=120,test_samples=20";
  config.batch = 8;
  const TestFolder out;
  config.out = out.path();
  config.checkpoint_every = 2;
  config.steps = 4;
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult whole = train_in("loopback", config, options).result;
  config.resume = folder.checkpoint(2);
  const TrainResult resumed = train_in("loopback", config, {}).result;
  EXPECT_EQ(resumed.model_sha256, whole.model_sha256);
  EXPECT_EQ(resumed.samples, whole.samples);
  EXPECT_EQ(resumed.scores.back().bytes, whole.scores.back().bytes);
  EXPECT_DOUBLE_EQ(resumed.scores.back().train_loss, whole.scores.back().train_loss);
}

// How numbers travel: what messages left out, and a plan that was measured, are in a checkpoint.
struct Way {
  std::string name, strategy, compress, overlap = "none", placement = "dedicated";
};

class Carried : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(
    Ways, Carried,
    ::testing::Values(Way{"TopK", "all-reduce", "topk:ratio=0.1", "wfbp"},
                      Way{"Dgc", "all-reduce", "dgc:ratio=0.1,warmup=0"},
                      Way{"PowerSgd", "all-reduce", "powersgd:rank=1,start=2"},
                      Way{"Drawn", "all-reduce", "qsgd:levels=7", "wfbp"},
                      Way{"OfWeights", "local-sgd:period=3", "topk:ratio=0.1"},
                      Way{"Pushed", "parameter-server", "topk:ratio=0.1", "wfbp"},
                      Way{"PushedInPieces", "parameter-server", "int8:feedback=on"},
                      Way{"PushedWithin", "parameter-server", "onebit", "none", "colocated"},
                      Way{"Measured", "all-reduce", "", "merged"},
                      Way{"MeasuredTopK", "all-reduce", "topk:ratio=0.1", "merged"},
                      Way{"MeasuredPushes", "parameter-server", "topk:ratio=0.1", "merged"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Carried, ResumesToTheBit) {
  TrainConfig config = small_config();
  config.workers = 3;
  config.strategy = GetParam().strategy;
  config.compress = GetParam().compress;
  config.overlap = GetParam().overlap;
  config.server_placement = GetParam().placement;
  if (GetParam().strategy == "parameter-server")
    config.servers = GetParam().placement == "colocated" ? 3 : 2;
  config.epochs = 2;
  config.steps = 9;  // a plan is measured in five
  config.checkpoint_every = 7;
  const TestFolder out;
  config.out = out.path();
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult whole = train_in("loopback", config, options).result;
  config.resume = folder.checkpoint(7);
  EXPECT_EQ(train_in("loopback", config, {}).result.model_sha256, whole.model_sha256);
}

// All is sent, and momentum is applied before that in place of after it.
TEST(CarriedBy, DgcOfEverythingIsSgdWithMomentum) {
  TrainConfig config = config_of(cases()[0], 1);
  const std::string plain = train_in("loopback", config).result.model_sha256;
  config.compress = "dgc:ratio=1,masking=off,warmup=0,clip=0";
  EXPECT_EQ(train_in("loopback", config).result.model_sha256, plain);
}

TEST_P(EveryStrategy, PassesTheAudit) {
  TrainConfig config = config_of(GetParam());
  config.audit = true;
  EXPECT_NO_THROW(train_in("loopback", config));
}

TEST_P(EveryStrategy, UnevenShardsLoseNoSample) {
  TrainConfig config = config_of(GetParam());
  config.split = "dirichlet:alpha=0.3";
  config.audit = true;
  EXPECT_EQ(train_in("loopback", config).result.samples, 400u);
}

TEST_P(EveryStrategy, TimeIsComputeCommunicateAndWait) {
  const TrainResult result = train_in("simulated", config_of(GetParam())).result;
  for (const auto& rank : result.ranks) {
    const double spent = rank["compute_seconds"].get<double>() +
                         rank["communicate_seconds"].get<double>() +
                         rank["wait_seconds"].get<double>();
    if (rank["role"] == "worker") {
      EXPECT_NEAR(spent, result.scores.back().training_s, 1e-3) << "some messages";
    }
    EXPECT_TRUE(rank["peak_rss_bytes"].is_null());
  }
}

TEST(Worker, LearnsDigits) {
  TrainConfig config = small_config();
  config.data = "digits:samples=2000,test_samples=400";
  config.model = "mlp:width=64,depth=1";
  config.epochs = 3;
  EXPECT_GT(train_in("loopback", config).result.scores.back().accuracy, 0.7);
}

TEST(Worker, ExactStrategiesDoNotDependOnTheNumberOfWorkers) {
  TrainConfig config = small_config();
  config.global_batch = 64;  // which neither divides the samples nor is divided by the workers
  config.epochs = 2;
  for (const std::string strategy : {"all-reduce", "parameter-server"}) {
    config.strategy = strategy;
    config.workers = 1;
    const Score one = train_in("loopback", config).result.scores.back();
    EXPECT_LT(one.train_loss, 2.2) << "it learns";
    for (const int workers : {3, 5}) {
      config.workers = workers;
      const Score several = train_in("loopback", config).result.scores.back();
      EXPECT_EQ(several.steps, 14u);
      EXPECT_NEAR(several.train_loss, one.train_loss, 1e-5);
      EXPECT_NEAR(several.loss, one.loss, 1e-5);
      EXPECT_DOUBLE_EQ(several.consensus_distance, 0);
    }
  }
}

// Its rule needs whole layers, where a server steps piece by piece else.
TEST(Worker, LarsWorksWithOneServer) {
  TrainConfig config = small_config();
  config.model = "mlp:width=128,depth=1";  // 400 KB: more than one piece
  config.optimizer = "lars:lr=1,eta=0.1";
  config.global_batch = 40;  // the same samples in every step, by however many workers
  config.audit = true;
  const auto score_of = [&](int workers) {
    config.workers = workers;
    return train_in("loopback", config).result.scores.back();
  };
  const Score alone = score_of(1);
  const auto expect_as_alone = [&](const Score& score) {
    EXPECT_NEAR(score.train_loss, alone.train_loss, 1e-5);
    EXPECT_NEAR(score.loss, alone.loss, 1e-5);
  };
  expect_as_alone(score_of(2));
  config.strategy = "parameter-server";
  for (const std::string placement : {"dedicated", "colocated"}) {
    config.server_placement = placement;
    expect_as_alone(score_of(2));
  }
}

// Where workers step and servers only add, the servers' shards may cut layers.
TEST(Worker, LarsWorksWithSeveralServersThatDoNotStep) {
  for (const std::string strategy : {"ssp", "easgd:period=2"}) {
    TrainConfig config = small_config();
    config.strategy = strategy;
    config.workers = 1;
    config.optimizer = "lars:lr=1,eta=0.1";
    config.audit = true;
    const auto model_with = [&](int servers) {
      config.servers = servers;
      return train_in("loopback", config).result.model_sha256;
    };
    EXPECT_EQ(model_with(3), model_with(1)) << strategy;
  }
}

// Those of ranks that don't learn yet are read by others.
TEST(Worker, SmaSkipsNoSamplesWhileItSearches) {
  TrainConfig config = small_config();
  config.workers = 4;
  config.batch = 7;
  config.epochs = 2;  // of 15 steps, the first 16 with one learner
  config.strategy = "sma:learners=4,auto=on";
  config.audit = true;
  const TrainResult result = train_in("simulated", config).result;
  std::uint64_t samples = 0;
  for (const auto& rank : result.ranks) samples += rank["samples"].get<std::uint64_t>();
  EXPECT_EQ(samples, 2 * 400u);
  EXPECT_GT(result.ranks[0]["samples"], 400u) << "it was alone for the first epoch";
  EXPECT_GT(result.ranks[1]["samples"], 0u);
  EXPECT_LT(result.scores.back().train_loss, 2.2) << "it learns";
}

TEST(Worker, AnOpenEndComesForAWorkerWithoutSamplesToo) {
  TrainConfig config = small_config();
  config.data = "digits:samples=1,test_samples=10";
  config.split = "contiguous";
  config.strategy = "asp";
  config.epochs = 0;
  config.seconds = 0.1;
  const TrainResult result = train_in("simulated", config).result;
  EXPECT_GT(result.ranks[0]["samples"], 0u);
  EXPECT_EQ(result.ranks[1]["samples"], 0u);
}

// It waits for as long as a step takes, instead of taking steps in no time.
TEST(Worker, AWorkerWithoutSamplesSitsOutAnOpenEnd) {
  TrainConfig config = small_config();
  config.data = "digits:samples=1,test_samples=10";
  config.split = "contiguous";
  config.strategy = "asp";
  config.epochs = 0;
  config.seconds = 0.3;
  for (const std::string world : {"loopback", "shm"}) {
    const TrainResult result = train_in(world, config).result;
    EXPECT_EQ(result.ranks[1]["samples"], 0u) << world;
    EXPECT_LE(result.ranks[1]["steps"], 31u) << world << ": of at least 10 ms each";
  }
}

TEST(Worker, StepWiseSendsHalfOfRing) {
  TrainConfig config = small_config();
  config.workers = 4;
  config.strategy = "all-reduce:average=weights";
  const auto ring = train_in("simulated", config).result.scores.back().bytes;
  EXPECT_GT(ring, 0u);
  config.strategy = "step-wise";
  EXPECT_EQ(2 * train_in("loopback", config).result.scores.back().bytes, ring);
}

TEST(Worker, ASlowRankIsWaitedFor) {
  TrainConfig config = small_config();
  config.workers = 3;
  config.data = "digits:samples=420,test_samples=30";  // whole batches
  config.cluster = "sim:step=10ms,slow=rank1:3.0";
  const auto run = summary_in("simulated", config);
  const auto& ranks = run["workers_detail"];
  const double steps = run["steps"];
  EXPECT_NEAR(ranks[0]["wait_seconds"].get<double>(), steps * 0.02, steps * 0.001);
  EXPECT_NEAR(ranks[1]["wait_seconds"].get<double>(), 0, 1e-9);
  EXPECT_NEAR(ranks[1]["compute_seconds"].get<double>(), steps * 0.03, 1e-9);
  // 10, 30 and 10 ms: a variance of 400/3 ms².
  EXPECT_NEAR(run["compute_deviation_seconds"].get<double>(), std::sqrt(400e-6 / 3), 1e-9);
}

TEST(Worker, HollowRunsKnowTimesAndBytes) {
  TrainConfig config = small_config();
  config.workers = 8;
  config.model = "mlp:width=256,depth=2";
  config.data = "digits:samples=480,test_samples=30";  // whole batches
  config.cluster = "sim:numerics=off,step=10ms,bandwidth=8Gbps,latency=10us";
  const Experiment experiment(config, {});
  const double n = static_cast<double>(experiment.hollow_parameters());
  const auto run = summary_in("simulated", config);
  const double exchange = 2 * 7 * (10e-6 + 4 * n / 8 / 1e9);
  EXPECT_NEAR(run["train_seconds"].get<double>(), run["steps"].get<double>() * (0.01 + exchange),
              1e-3 * run["train_seconds"].get<double>());
  EXPECT_TRUE(run["score"].is_null());
  double sent = 0;
  for (const auto& rank : run["workers_detail"]) sent += rank["bytes_sent"].get<double>();
  EXPECT_DOUBLE_EQ(sent, run["steps"].get<double>() * 2 * 7 * 4 * n);
}

TEST(Worker, AGradientThatIsNotFiniteIsNamed) {
  TrainConfig config = small_config();
  config.optimizer = "sgd:lr=1e38";
  EXPECT_THAT([&] { train_in("loopback", config); },
              ThrowsMessage<BadGradient>(AllOf(HasSubstr("rank "), HasSubstr("step "))));
}

TEST(Worker, ADeadWorkerIsNamed) {
  TrainConfig config = small_config();
  config.workers = 3;
  const auto body = [&] {
    complete(config);
    check(config);
    const Experiment experiment(config, {});
    std::mutex turn;
    WorkerOptions options;
    options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
    run_loopback(3, [&](Rank& rank) {
      int steps = 0;
      WorkerOptions mine = options;
      mine.stopped = [&] { return rank.rank() == 1 && ++steps == 3; };
      try {
        train(rank, experiment, mine);
      } catch (const Stopped&) {  // rank 1 goes away, and the others have to notice
      }
    });
  };
  EXPECT_THAT(body, ThrowsMessage<TransportError>(HasSubstr("rank 1")));
}

// A program's own row is a row like ours. Here it makes what one of ours makes, by another name.
TrainConfig by_own_name(TrainConfig config, StrategyRow& own) {
  own = strategy_named(config.strategy);
  config.strategy.replace(0, own.name.size(), "own");
  own.name = "own";
  config.own_strategy = &own;
  return config;
}

TEST(Worker, AStrategyOfOnesOwnGoesTogetherOrInRounds) {
  for (const char* spec : {"local-sgd:period=3", "epoch-average"}) {
    TrainConfig config = small_config();
    config.strategy = spec;
    config.audit = true;
    StrategyRow own;
    EXPECT_EQ(train_in("loopback", by_own_name(config, own)).result.model_sha256,
              train_in("loopback", config).result.model_sha256)
        << spec;
  }
}

class OwnApart : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnApart, TrainsAsTheSameOneOfTheRegistry) {
  TrainConfig config = small_config();
  config.strategy = GetParam();
  config.audit = true;
  config.cluster = "sim:step=10ms";
  StrategyRow own;
  const Experiment known(config), mine(by_own_name(config, own));
  std::vector<std::string> models;
  run_simulated(known.simulation->cluster, [&](Rank& rank) {
    for (const Experiment* experiment : {&known, &mine})
      if (const WorkerOutcome outcome = train(rank, *experiment); outcome.leads)
        models.push_back(outcome.result.model_sha256);
  });
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0], models[1]);
}

INSTANTIATE_TEST_SUITE_P(WithServersAndWithout, OwnApart, ::testing::Values("asp", "gossip:p=1"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST(Worker, AnotherNumberOfRanksIsRefused) {
  TrainConfig config = small_config();
  config.workers = 3;
  const Experiment experiment(config);
  EXPECT_THAT([&] { run_loopback(2, [&](Rank& rank) { train(rank, experiment); }); },
              ThrowsMessage<UsageError>(HasSubstr("there are 2 ranks")));
}

TEST(Worker, SecondsStepsAndBytesToTheTargetAreKnown) {
  TrainConfig config = small_config();
  config.data = "digits:samples=1000,test_samples=200";
  config.evaluate_every = 5;
  config.epochs = 3;
  config.target_accuracy = 0.2;
  const auto run = summary_in("simulated", config);
  ASSERT_FALSE(run["target_steps"].is_null());
  EXPECT_LT(run["target_steps"].get<int>(), run["steps"].get<int>());
  EXPECT_GT(run["target_bytes"].get<int>(), 0);
  EXPECT_EQ(run["score_by_epoch"].size(), 3u);
  EXPECT_EQ(run["seconds_by_epoch"].size(), 3u);
  EXPECT_EQ(run["score_by_class"].size(), 10u);
}

}  // namespace
}  // namespace lockstep::testing
