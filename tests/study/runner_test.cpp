// Carrying a study out, with a command that only pretends.
#include "study/runner.h"

#include <gmock/gmock.h>

#include "data/files.h"
#include "study/pretended.h"
#include "train/run_folder.h"

namespace lockstep::study {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kFour = "[grid]\nworkers = [1, 2]\n[repeat]\nseeds = [1, 2]\n";

class RunnerTest : public ::testing::Test {
 protected:
  // Each run takes ten seconds and succeeds, unless `behave` says otherwise.
  Study carry_out(const std::string& text) {
    Study study = plan_from_text(text);
    SilentWatcher watcher;
    Runner runner(study, folder_, world(), watcher);
    whole_ = runner.run_until(1 << 20);
    runner.finish();
    return study;
  }
  World world() {
    return {[this](const Order& order) {
              EXPECT_TRUE(fs::is_empty(order.folder));
              executed_.push_back(order.run->id);
              commands_.push_back(shell_line(order.words));
              now_ += 10;
              if (behave_) return behave_(order);
              write_done(order.folder, result_json(0.9));
              return Ending{};
            },
            [this] { return now_; }, [] { return false; }};
  }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  const ::lockstep::testing::Folder temporary_;
  const std::string folder_ = temporary_.text() + "/study";
  std::vector<std::string> executed_, commands_;
  std::function<Ending(const Order&)> behave_;
  double now_ = 1000;
  bool whole_ = false;
};

TEST_F(RunnerTest, RunsEachOnceAndKeepsWhatIsDone) {
  const Study study = carry_out(kFour);
  EXPECT_EQ(study.count("done"), 4u);
  EXPECT_EQ(study.runs[0].seconds, 10);
  EXPECT_EQ(commands_[0], "train --seed 1 --workers 1");
  carry_out(kFour);
  EXPECT_EQ(executed_.size(), 4u) << "nothing was left to do";
  const Study again = carry_out("[grid]\nworkers = [1, 2, 3]\n[repeat]\nseeds = [1, 2]\n");
  EXPECT_EQ(executed_.size(), 6u) << "only what is new";
  EXPECT_EQ(again.runs[0].seconds, 10) << "known from before";
}

TEST_F(RunnerTest, LeavesOutWhatTheCommandRefuses) {
  const Study study = carry_out("refused = \"shown\"\n[grid]\nworkers = [0, 2]\n");
  EXPECT_EQ(commands_, std::vector<std::string>{"train --seed 1 --workers 2"});
  EXPECT_EQ(study.count("refused"), 1u);
  EXPECT_EQ(study.count("done"), 1u);
}

TEST_F(RunnerTest, GoesOnWhereItWasStopped) {
  behave_ = [&](const Order& order) {
    Ending ending;
    if (executed_.size() == 3)
      ending.kind = Ending::Kind::interrupted;
    else
      write_done(order.folder, result_json(0.9));
    return ending;
  };
  const Study stopped = carry_out(kFour);
  EXPECT_FALSE(whole_);
  EXPECT_EQ(stopped.count("done"), 2u);
  EXPECT_EQ(stopped.runs[2].status, "stopped");
  EXPECT_EQ(stopped.runs[3].status, "not run");
  behave_ = {};
  EXPECT_EQ(carry_out(kFour).count("done"), 4u);
  EXPECT_TRUE(whole_);
  EXPECT_EQ(executed_.size(), 5u);
  EXPECT_EQ(executed_[3], executed_[2]) << "the one that was stopped is run again";
}

TEST_F(RunnerTest, AFailedRunIsRecordedAndTriedAgainByTheNextCall) {
  behave_ = [&](const Order& order) {
    if (executed_.size() != 2) {
      write_done(order.folder, result_json(0.9));
      return Ending{};
    }
    return Ending{Ending::Kind::finished, 137, "rank 1 died of signal 9", "",
                  "all that\nwas said\n"};
  };
  const Study study = carry_out(kFour);
  EXPECT_TRUE(whole_);
  EXPECT_EQ(study.count("done"), 3u);
  EXPECT_EQ(study.runs[1].status, "failed");
  EXPECT_EQ(study.runs[1].reason, "rank 1 died of signal 9");
  EXPECT_EQ(read_whole(at("runs/" + study.runs[1].id + "/stderr.txt")), "all that\nwas said\n");
  EXPECT_EQ(read_run(at("runs/" + study.runs[1].id)).status, "failed");
  behave_ = {};
  EXPECT_EQ(carry_out(kFour).count("done"), 4u);
  EXPECT_EQ(executed_.size(), 5u);
}

TEST_F(RunnerTest, ARunThatDiedWithoutAWordIsNotTakenForDone) {
  behave_ = [&](const Order& order) {
    write_whole(order.folder + "/run.json", std::string(R"({"status":"running","result":null})"));
    return Ending{Ending::Kind::finished, 137, "died of signal 9 (SIGKILL)", "", ""};
  };
  const Study study = carry_out("");
  EXPECT_EQ(study.runs[0].status, "failed");
  EXPECT_EQ(study.runs[0].reason, "died of signal 9 (SIGKILL)");
}

TEST_F(RunnerTest, ARunThatAProcessStillWritesIsLeftAlone) {
  const std::string second = at("runs/" + plan_from_text(kFour).runs[1].id);
  {
    const RunOwner left_over(second);  // such as a study that was killed leaves behind
    write_whole(second + "/metrics.jsonl", std::string("a score\n"));
    const Study study = carry_out(kFour);
    EXPECT_TRUE(whole_);
    EXPECT_EQ(study.count("done"), 3u);
    EXPECT_EQ(study.runs[1].status, "failed");
    EXPECT_THAT(study.runs[1].reason, HasSubstr("is being written by pid"));
    EXPECT_EQ(read_whole(second + "/metrics.jsonl"), "a score\n");
    EXPECT_EQ(executed_.size(), 3u);
  }
  EXPECT_EQ(carry_out(kFour).count("done"), 4u);
  EXPECT_EQ(executed_.size(), 4u);
}

TEST_F(RunnerTest, WhatDoesNotFitIntoTheTimeIsNotRun) {
  const Study study = carry_out(std::string("minutes = 0.4\n") + kFour);  // 24 s: two runs of 10
  EXPECT_TRUE(whole_);
  EXPECT_EQ(study.count("done"), 2u);
  EXPECT_EQ(study.count("not run"), 2u);
  EXPECT_THAT(study.runs[3].reason, HasSubstr("0.4 minutes"));
}

TEST_F(RunnerTest, TheLastRunIsGivenTheTimeThatIsLeft) {
  double given = 0;
  behave_ = [&](const Order& order) {
    given = order.seconds;
    return Ending{Ending::Kind::out_of_time, 130, "", "", ""};
  };
  const Study study = carry_out(std::string("minutes = 1\n") + kFour);
  EXPECT_EQ(given, 60);
  EXPECT_EQ(study.runs[0].status, "stopped");
  EXPECT_EQ(study.count("not run"), 3u);
}

TEST_F(RunnerTest, ATwinIsToldWhatAStepTook) {
  behave_ = [&](const Order& order) {
    write_done(order.folder, result_json(0.9, 0.025));
    return Ending{};
  };
  carry_out("[base]\nworkers = 2\n[twin]\ncluster = \"sim:step=measured,jitter=0\"\n");
  ASSERT_EQ(commands_.size(), 2u);
  EXPECT_THAT(commands_[1], HasSubstr("--cluster sim:step=25.000ms,jitter=0"));
  const Study again =
      carry_out("[base]\nworkers = 2\n[twin]\ncluster = \"sim:step=measured,jitter=0\"\n");
  EXPECT_EQ(commands_.size(), 2u);
  EXPECT_EQ(again.runs[1].flags.at("cluster").text(), "sim:step=25.000ms,jitter=0");
}

TEST_F(RunnerTest, ATwinIsToldHowUnlikeTheWorkersWere) {
  behave_ = [&](const Order& order) {
    auto result = result_json(0.9, 0.025);
    result["compute_deviation_seconds"] = 0.005;
    write_done(order.folder, result);
    return Ending{};
  };
  carry_out("[base]\nworkers = 2\n[twin]\ncluster = \"sim:step=measured,jitter=measured\"\n");
  EXPECT_THAT(commands_.at(1), HasSubstr("--cluster sim:step=25.000ms,jitter=0.2000"));
}

TEST_F(RunnerTest, RowsThatACommandPrintsAreKept) {
  behave_ = [](const Order&) {
    return Ending{Ending::Kind::finished, 0, "", "{\"op\":\"allreduce\"}\n{\"op\":\"ra", ""};
  };
  const Study study = carry_out("");
  EXPECT_EQ(study.runs[0].status, "done");
  EXPECT_EQ(read_run(at("runs/" + study.runs[0].id)).result["rows"].size(), 1u);
}

TEST_F(RunnerTest, StudyJsonIsThereAfterEachRun) {
  behave_ = [&](const Order& order) {
    const Study now = study_from(nlohmann::json::parse(read_whole(at("study.json"))), "");
    EXPECT_EQ(now.count("done"), executed_.size() - 1);
    write_done(order.folder, result_json(0.9));
    return Ending{};
  };
  carry_out(kFour);
}

TEST_F(RunnerTest, AFolderThatCantBeMadeIsRefusedBeforeAnythingRuns) {
  write_whole(folder_, std::string("a file"));
  EXPECT_THAT([&] { carry_out(kFour); }, ThrowsMessage<UsageError>(HasSubstr("--out")));
  EXPECT_TRUE(executed_.empty());
}

TEST_F(RunnerTest, TwoStudiesDontShareAFolder) {
  behave_ = [&](const Order&) -> Ending {
    EXPECT_THAT([&] { FolderLock second(folder_); },
                ThrowsMessage<UsageError>(HasSubstr("another study")));
    return {};
  };
  carry_out("");
}

}  // namespace
}  // namespace lockstep::study
