// Ranks of `lockstep train` that are killed, on real processes.
#include <gmock/gmock.h>

#include <filesystem>

#include "cli/small_training.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class TrainWithLosses : public SmallTraining {};

TEST_F(TrainWithLosses, AKilledWorkerIsNamedAndTheRunSaysSo) {
  const Outcome outcome = train("-n 3 --epochs 50 --fault kill:rank=1,after=50 --out " + at("run"));
  EXPECT_EQ(outcome.status, 137);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1"));
  const auto run = read(at("run/run.json"));
  EXPECT_EQ(run["status"], "failed");
  EXPECT_THAT(run["reason"].get<std::string>(), HasSubstr("rank 1"));
  EXPECT_GT(read(at("run/timeline.json"))["traceEvents"].size(), 30u);
  for (int r = 0; r < 3; ++r) EXPECT_FALSE(last_sample("run", r).empty()) << r;
}

TEST_F(TrainWithLosses, WhatAKilledWorkerHadIsTrainedByOthers) {
  // The worker that comes first dies, by messages and by files, as a process and as a thread.
  for (const std::string how : {"messages", "files"})
    for (const std::string where : {"--transport auto", "--transport loopback"}) {
      const std::string out = at(how + where.substr(12));
      const Outcome outcome = train("-n 3 --strategy epoch-average:exchange=" + how +
                                    " --epochs 6 --audit --fault kill:rank=0,after=90 --json " +
                                    where + " --out " + out);
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      const auto run = read(out + "/run.json");
      EXPECT_EQ(run["status"], "done");
      const auto& result = run["result"];
      EXPECT_EQ(result["lost"], nlohmann::json({0}));
      EXPECT_GE(result["tasks_reissued"], 1);
      EXPECT_EQ(result["score_by_epoch"].size(), 6u);
      EXPECT_DOUBLE_EQ(result["effective_batch"].get<double>() * result["steps"].get<double>(),
                       6 * 400);
      EXPECT_EQ(result["workers_detail"].size(), 3u);
      EXPECT_FALSE(fs::exists(out + "/exchange"));
    }
}

// Over shared memory, and over UCX where that can be.
class WhereWorkersGoApart : public SmallTraining,
                            public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Strategies, WhereWorkersGoApart,
                         ::testing::Values("asp", "ssp", "downpour", "easgd", "hogwild", "gossip",
                                           "ad-psgd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(WhereWorkersGoApart, TheOthersGoOnWithoutAKilledWorkerAndSaySo) {
  for (const std::string transport : {"shm", "ucx"}) {
    if (GetParam() == "hogwild" && transport == "ucx") continue;
    const std::string out = at(transport);
    const Outcome outcome =
        train("-n 3 --epochs 10 --json --strategy " + GetParam() +
              " --fault kill:rank=1,after=60 --transport " + transport + " --out " + out);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, ContainsRegex("rank 1 .*is lost: it died of signal 9"));
    const auto run = read(out + "/run.json");
    EXPECT_EQ(run["status"], "done");
    EXPECT_EQ(run["result"]["lost"], nlohmann::json({1}));
    EXPECT_EQ(run["result"]["score_by_epoch"].size(), 10u);
    EXPECT_TRUE(fs::exists(out + "/model.pt"));
  }
}

class WhereServersHoldTheModel : public SmallTraining,
                                 public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Strategies, WhereServersHoldTheModel,
                         ::testing::Values("asp", "bsp", "ssp", "downpour", "easgd"),
                         [](const auto& info) { return info.param; });

TEST_P(WhereServersHoldTheModel, AKilledServerStopsTheRunNamingItsShardAndTheNewestCheckpoint) {
  const Outcome outcome = train("-n 2 --servers 2 --epochs 500 --checkpoint-every 5 --strategy " +
                                GetParam() + " --fault kill:rank=3,after=400 --out " + at("run"));
  EXPECT_EQ(outcome.status, 137) << outcome.err;
  const auto run = read(at("run/run.json"));
  EXPECT_EQ(run["status"], "failed");
  EXPECT_THAT(
      run["reason"].get<std::string>(),
      AllOf(ContainsRegex("^rank 3 .* died of signal 9"),
            ContainsRegex("server 1 \\(rank 3\\), which held parameters [0-9]+\\.\\.[0-9]+, "),
            HasSubstr("; the newest checkpoint is " + at("run/checkpoints/step-"))));
}

}  // namespace
}  // namespace lockstep
