// Runs in rounds: what the manager and its workers promise.

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "core/whole_file.h"
#include "core/zero_pages.h"
#include "train/round_runs.h"
#include "train/worker.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

// Trains in that folder, which has nothing else in it.
TrainResult train_kept(const TestFolder& out, const std::string& world, TrainConfig config) {
  fs::remove_all(out.path());
  config.out = out.path();
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  return train_in(world, config, options).result;
}

// Plain training on the shard of worker 0, by itself and with a fresh optimiser in every epoch: the
// checksum of what it comes to.
std::string alone(TrainConfig config, std::size_t* parameters = nullptr) {
  complete(config);
  const Experiment experiment(config, {});
  std::optional<ZeroPages> weights, gradients;
  const auto learner =
      make_torch_learner(experiment, 0,
                         [&](std::size_t count) {
                           weights.emplace(4 * count);
                           gradients.emplace(4 * count);
                           if (parameters) *parameters = count;
                           return ReplicaMemory{weights->bytes(), gradients->bytes()};
                         },
                         {});
  Plan plan = experiment.plan;
  for (std::uint64_t step = 0; step < experiment.steps; ++step) {
    const Plan::Position at = plan.position(step);
    if (at.step == 0) learner->replica().forget();
    if (plan.indices(0, at.epoch, at.step).empty()) continue;
    learner->open_step(step);
    compute(*learner);
    learner->replica().apply_gradients(step);
  }
  return checksum(learner->replica().weights().bytes());
}

// With random numbers in every step, and momentum to be forgotten.
TrainConfig with_dropout(TrainConfig config) {
  config.model = "mnist-cnn";
  config.data = "digits:samples=90,test_samples=20";
  config.batch = 8;
  return config;
}

TEST(Rounds, OneWorkerIsPlainTrainingWithAFreshOptimiserInEveryEpoch) {
  const TrainConfig config = with_dropout(rounds_config(1));
  EXPECT_EQ(train_in("simulated", config).result.model_sha256, alone(config));
}

TEST(Rounds, FirstIsTrainingOnTheFirstShardAlone) {
  const TrainConfig config = with_dropout(rounds_config(3, "aggregate=first"));
  EXPECT_EQ(train_in("simulated", config).result.model_sha256, alone(config));
}

TEST(Rounds, BalancedBatchesAreThoseOfThePlan) {
  TrainConfig config = rounds_config(1);
  config.balanced_batches = true;
  config.split = "equal";
  EXPECT_EQ(train_in("loopback", config).result.model_sha256, alone(config));
}

TEST(Rounds, EndWithTheSameBitsInEveryWorldAndByAnyExchange) {
  const TestFolder kept;
  for (const std::string rule : {"average", "weighted"}) {
    std::set<std::string> sums;
    sums.insert(train_in("loopback", rounds_config(3, "aggregate=" + rule)).result.model_sha256);
    sums.insert(train_in("shm", rounds_config(3, "aggregate=" + rule)).result.model_sha256);
    const std::string files = "exchange=files,aggregate=" + rule;
    const TrainResult by_files = train_kept(kept, "loopback", rounds_config(3, files));
    sums.insert(by_files.model_sha256);
    EXPECT_EQ(by_files.scores.back().bytes, 0u);
    EXPECT_FALSE(fs::exists(kept.path() + "/exchange")) << "nobody needs it any more";
    if (rule == "average")  // one simulation a process
      sums.insert(train_kept(kept, "simulated", rounds_config(3, files)).model_sha256);
    EXPECT_EQ(sums.size(), 1u) << rule;
    EXPECT_FALSE(sums.begin()->empty());
  }
}

TEST(Rounds, AveragingIsNeitherTheFirstNorByLoss) {
  std::set<std::string> sums;
  for (const std::string rule : {"average", "weighted", "first"})
    sums.insert(train_in("loopback", rounds_config(3, "aggregate=" + rule)).result.model_sha256);
  EXPECT_EQ(sums.size(), 3u);
}

TEST(Rounds, OneClassEachAndOnlyTheFirstKnowsOneClass) {
  TrainConfig config = rounds_config(10, "aggregate=first");
  config.split = "class";
  const Score published = train_in("loopback", config).result.scores.back();
  EXPECT_EQ(published.by_class[0], 1);
  for (std::size_t c = 1; c < 10; ++c) EXPECT_EQ(published.by_class[c], 0);
  EXPECT_EQ(published.most_predicted, 1);
}

TEST(Rounds, PassTheAuditAndLearn) {
  TrainConfig config = rounds_config(3);
  config.audit = true;
  config.data = "digits:samples=2000,test_samples=400";
  config.model = "mlp:width=64,depth=1";
  config.epochs = 4;
  const TrainResult result = train_in("loopback", config).result;
  ASSERT_EQ(result.scores.size(), 4u);
  EXPECT_GT(result.scores.back().accuracy, 0.7);
  EXPECT_LT(result.scores.back().train_loss, result.scores.front().train_loss);
  EXPECT_GT(result.scores.back().consensus_distance, 0);
  EXPECT_EQ(result.samples, 8000u);
}

TEST(Rounds, WeightsGoDownAndUpOnceATask) {
  TrainConfig config = rounds_config(3);
  config.data = "digits:samples=420,test_samples=30";  // seven whole batches each
  config.cluster = "sim:step=10ms,slow=rank1:3.0,latency=50us,bandwidth=1Gbps";
  std::size_t n = 0;
  alone(config, &n);
  const auto run = summary_in("simulated", config);
  double sent = 0;
  for (const auto& rank : run["workers_detail"]) sent += rank["bytes_sent"].get<double>();
  EXPECT_EQ(sent, 2.0 * 3 * 2 * 4 * static_cast<double>(n));
  EXPECT_EQ(run["tasks_reissued"], 0);
  EXPECT_EQ(run["tasks_dropped"], 0);
  // An epoch takes as long as its slowest worker, and the others wait for that one.
  const double slowest = 7 * 0.03;
  for (const double seconds : run["seconds_by_epoch"]) EXPECT_NEAR(seconds, slowest, 0.01);
  EXPECT_NEAR(run["workers_detail"][0]["wait_seconds"].get<double>(), 2 * 7 * 0.02, 0.01);
  EXPECT_NEAR(run["workers_detail"][1]["wait_seconds"].get<double>(), 0, 0.01);
  EXPECT_NEAR(run["workers_detail"][1]["compute_seconds"].get<double>(), 2 * slowest, 1e-9);
}

TEST(Rounds, HollowRunsKnowTimesAndBytes) {
  TrainConfig config = rounds_config(8);
  config.model = "mlp:width=256,depth=2";
  config.data = "digits:samples=480,test_samples=30";
  config.cluster = "sim:numerics=off,step=10ms,bandwidth=8Gbps,latency=10us";
  const double n = static_cast<double>(Experiment(config, {}).hollow_parameters());
  const auto run = summary_in("simulated", config);
  // The manager's line carries all models, down and up.
  EXPECT_NEAR(run["train_seconds"].get<double>(), 2 * (3 * 0.01 + 2 * 8 * 4 * n / 1e9), 2e-3);
  EXPECT_TRUE(run["score"].is_null());
}

TEST(Rounds, StatisticsAreTheModelsToo) {
  TrainConfig config = rounds_config(2);
  config.model = "resnet20";
  config.data = "synthetic:shape=3x8x8,classes=3,samples=24,test_samples=12";
  config.batch = 6;
  const Score by_message = train_in("loopback", config).result.scores.back();
  const TestFolder kept;
  config.strategy += ":exchange=files";
  const Score by_files = train_kept(kept, "loopback", config).scores.back();
  EXPECT_EQ(by_message.loss, by_files.loss);
  EXPECT_GT(by_message.loss, 0);
}

TEST(Rounds, SayWhatTheyCannotDo) {
  const auto refused = [](const std::function<void(TrainConfig&)>& change, const char* why) {
    TrainConfig config = rounds_config(2);
    change(config);
    complete(config);
    EXPECT_THAT([&] { check(config); }, ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  refused([](auto& c) { c.steps = 10; }, "--steps does not work with epoch-average");
  refused([](auto& c) { c.evaluate_every = 10; }, "after each epoch only");
  refused([](auto& c) { c.checkpoint_every = 10; }, "can't be resumed");
  refused([](auto& c) { c.profile_out = "x"; }, "--profile-out");
  refused([](auto& c) { c.servers = 2; }, "one manager");
  refused([](auto& c) { c.server_placement = "colocated"; }, "one manager");
  refused(
      [](auto& c) {
        c.cluster = "sim:numerics=off,step=1ms";
        c.strategy = "epoch-average:exchange=files";
      },
      "no numbers to write to files");
  EXPECT_THAT([] { train_in("loopback", rounds_config(2, "exchange=files")); },
              ThrowsMessage<UsageError>(HasSubstr("exchange=files needs a run that is kept")));
}

}  // namespace
}  // namespace lockstep::testing
