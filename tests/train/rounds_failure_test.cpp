// Runs in rounds whose workers die, or stall.
#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "train/round_runs.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// A run by files on threads, in which each rank has a folder of its own.
void with_folders(TrainConfig config, const std::vector<std::string>& paths) {
  complete(config);
  const Experiment experiment(config, {});
  std::mutex turn;
  run_loopback(config.ranks(), [&](Rank& rank) {
    const RunFolder folder(paths[rank.rank()]);
    WorkerOptions options;
    options.folder = &folder;
    options.turns = {[&] { turn.lock(); }, [&] { turn.unlock(); }};
    train(rank, experiment, options);
  });
}

TEST(RoundsWithLosses, WhatTheDeadHadIsTrainedByOthers) {
  TrainConfig config = rounds_config(3);
  config.epochs = 4;
  config.audit = true;
  // In the second epoch, which starts after seven steps: the first of all, which keeps no records.
  const TrainResult result = with_deaths(config, {{0, 0.1}});
  EXPECT_THAT(result.lost, ElementsAre(0));
  EXPECT_EQ(result.tasks_reissued, 1u) << "once: later it was never handed to the dead";
  EXPECT_EQ(result.tasks_dropped, 0u);
  EXPECT_EQ(result.samples, 4 * 400u);
  ASSERT_EQ(result.scores.size(), 4u);
  EXPECT_EQ(result.ranks.size(), 3u);
  EXPECT_GT(result.seconds_by_epoch[3], 1.5 * result.seconds_by_epoch[0]) << "two work for three";
}

TEST(RoundsWithLosses, AResultThatItsWorkerDiedDeliveringIsMadeAnew) {
  TrainConfig config = rounds_config(2);
  config.epochs = 1;
  config.audit = true;
  // A model of 0.41 Mbit: the first weights are everywhere after 0.82 s, the round's model after as
  // long again; ten steps take 0.1 s, and then both deliver until 2.56 s.
  config.cluster = "sim:step=10ms,bandwidth=1Mbps";
  const TrainResult result = with_deaths(config, {{1, 2.2}});
  EXPECT_THAT(result.lost, ElementsAre(1));
  EXPECT_EQ(result.tasks_reissued, 1u);
  EXPECT_EQ(result.samples, 400u);
  EXPECT_EQ(result.ranks[0]["samples"], 400) << "it did both tasks";
}

TEST(RoundsWithLosses, WhatTheDeadHadIsDroppedWhenToldTo) {
  TrainConfig config = rounds_config(3, "reissue=never");
  config.epochs = 4;
  const TrainResult result = with_deaths(config, {{1, 0.1}, {2, 0.17}});
  EXPECT_THAT(result.lost, ElementsAre(1, 2));
  EXPECT_EQ(result.tasks_reissued, 0u);
  EXPECT_EQ(result.tasks_dropped, 3u + 2u);
  EXPECT_LT(result.samples, 4 * 400u);
  EXPECT_EQ(result.scores.size(), 4u);
}

TEST(RoundsWithLosses, NobodyLeftIsSaid) {
  EXPECT_THAT(
      [&] {
        with_deaths(rounds_config(2), {{0, 0.05}, {1, 0.06}});
      },
      ThrowsMessage<TransportError>(HasSubstr("all 2 workers are gone in epoch 1")));
}

TEST(RoundsWithLosses, ADeadManagerEndsTheRun) {
  EXPECT_THAT(
      [&] {
        with_deaths(rounds_config(2), {{2, 0.05}});
      },
      ThrowsMessage<TransportError>(HasSubstr("rank 2")));
}

TEST(RoundsWithLosses, AManagerThatDiesAtTheEndLeavesNoResult) {
  TrainConfig config = rounds_config(2);
  config.epochs = 1;
  // So long a latency that one of these deaths falls into the last meeting.
  config.cluster = "sim:step=1ms,latency=100ms";
  std::set<std::string> said;
  for (double at_s = 1; at_s < 4; at_s += 0.1)
    said.insert(in_a_process([&] {
      try {
        const TrainResult result = with_deaths(config, {{2, at_s}});
        return fmt::format("{} lost", result.lost.size());
      } catch (const TransportError& e) {
        return fmt::format("{}: {}", e.peer(), e.what());
      }
    }));
  EXPECT_THAT(said, Contains(HasSubstr("2: rank 2, the manager, is gone, and with it the model")));
  EXPECT_THAT(said, Each(AnyOf(StartsWith("2: "), "0 lost"))) << "nobody tells its result for it";
}

TEST(RoundsWithLosses, FoldersThatAreNotSharedAreSaid) {
  const TestFolder mine, theirs;
  const TrainConfig config = rounds_config(1, "exchange=files");
  EXPECT_THAT(
      [&] {
        with_folders(config, {theirs.path(), mine.path()});
      },
      ThrowsMessage<UsageError>(
          AllOf(HasSubstr("the model of epoch 1 is not in"), HasSubstr("all hosts must share"))));
  // The model comes, but the result does not.
  fs::create_symlink(mine.path() + "/exchange/00000000.model",
                     theirs.path() + "/exchange/00000000.model");
  EXPECT_THAT(
      [&] {
        with_folders(config, {theirs.path(), mine.path()});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("rank 0's result of epoch 1 is not in"),
                                      HasSubstr("all hosts must share"))));
}

TEST(RoundsWithLosses, WhoIsStalledIsGivenUpAndItsResultComesTooLate) {
  TrainConfig config = rounds_config(3, "give_up=0.3");
  config.audit = true;
  config.cluster = "sim:step=10ms,slow=rank1:20";  // an epoch of it takes 1.4 s, and 0.07 others
  const TrainResult result = train_in("simulated", config).result;
  EXPECT_TRUE(result.lost.empty());
  EXPECT_EQ(result.tasks_reissued, 2u);
  EXPECT_EQ(result.samples, 800u);
  for (const double seconds : result.seconds_by_epoch) EXPECT_LT(seconds, 0.5);
  const auto& weights = result.ranks[3]["contributions"]["weight_by_worker"];
  EXPECT_NEAR(weights[0].get<double>() + weights[2].get<double>(), 2, 1e-12);
  EXPECT_EQ(weights[1].get<double>(), 0) << "too late";
  EXPECT_GT(result.ranks[1]["samples"].get<int>(), 0) << "and yet it worked";
}

// Wherever it stalls; also where it has taken a task and not yet asked for the model.
TEST(RoundsWithLosses, WhoIsStalledInTheLastRoundHoldsNobodyUp) {
  TrainConfig config = rounds_config(2, "give_up=0.3");
  config.epochs = 1;
  config.cluster = "sim:step=10ms";
  for (int after = 1; after <= 30; ++after) {
    config.faults = {fmt::format("stall:rank=1,after={},seconds=2s", after)};
    EXPECT_EQ(in_a_process([&] {
                const TrainResult result = train_in("simulated", config).result;
                return fmt::format("{} samples, {} lost", result.samples, result.lost.size());
              }),
              "400 samples, 0 lost")
        << after;
  }
}

TEST(RoundsWithLosses, WhoIsStalledIsDroppedWhenToldTo) {
  TrainConfig config = rounds_config(3, "give_up=0.3,reissue=never");
  config.cluster = "sim:step=10ms,slow=rank1:20";
  const TrainResult result = train_in("simulated", config).result;
  EXPECT_EQ(result.tasks_dropped, 2u);
  EXPECT_LT(result.samples, 800u);
  EXPECT_EQ(result.scores.size(), 2u);
}

TEST(RoundsWithLosses, TooShortAPatienceIsSaid) {
  TrainConfig config = rounds_config(2, "give_up=20ms,reissue=never");
  config.cluster = "sim:step=10ms";
  EXPECT_THAT([&] { train_in("simulated", config); },
              ThrowsMessage<Error>(HasSubstr("none of 2 tasks came back")));
}

TEST(RoundsWithLosses, WhoseSlowestAloneIsLeftStillEnds) {
  // Given up, and there is nobody to take it over: it goes on with what it has.
  TrainConfig config = rounds_config(1, "give_up=20ms");
  EXPECT_EQ(train_in("simulated", config).result.samples, 800u);
}

}  // namespace
}  // namespace lockstep::testing
