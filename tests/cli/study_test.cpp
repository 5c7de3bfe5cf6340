// `lockstep study` and `lockstep report` from the command line to the files, with runs that are
// simulated or small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/mistake.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kBase = R"(
title = "Small"
baseline = "ring"
[base]
model = "mlp:width=16,depth=1"
data = "digits:samples=200,test_samples=50"
batch = 20
epochs = 1
workers = 2
cluster = "sim:step=1ms"
)";
constexpr const char* kVariants = R"(
[[variant]]
name = "ring"
strategy = "all-reduce:average=weights"
collective = "ring"
[[variant]]
name = "step-wise"
strategy = "step-wise"
collective = "ring"
)";

class Studied : public ::testing::Test {
 protected:
  Outcome study(const std::string& text, const std::string& flags = "") const {
    std::ofstream(at("a.toml")) << text;
    return lockstep("study " + at("a.toml") + " --out " + at("out") + " " + flags);
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  nlohmann::json plan() const { return nlohmann::json::parse(std::ifstream(at("out/study.json"))); }
  std::size_t runs() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(at("out/runs")), {}));
  }
  const bench::PrivateFolder folder_{::testing::TempDir()};
};

TEST_F(Studied, RunsWhatIsNewAndWritesResultsAndReport) {
  const std::string text = std::string(kBase) + kVariants;
  const Outcome first = study(text, "--json");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.json().at(0)["done"], 2);
  EXPECT_TRUE(fs::exists(first.json().at(0)["report"].get<std::string>()));
  std::ifstream csv(at("out/results.csv"));
  const std::string rows{std::istreambuf_iterator(csv), {}};
  EXPECT_EQ(std::ranges::count(rows, '\n'), 3);
  EXPECT_THAT(rows, HasSubstr(",step-wise,no,1,done,"));

  const Outcome more = study(text + "[repeat]\nseeds = [1, 2]\n");
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(std::ranges::count(more.out, '\n'), 2 + 3) << "two runs and a summary:\n" << more.out;
  EXPECT_EQ(runs(), 4u);
  EXPECT_EQ(lockstep("report " + at("out")).status, 0);
}

std::set<std::string> ids_of(const nlohmann::json& study) {
  std::set<std::string> ids;
  for (const auto& run : study.at("runs")) ids.insert(run.at("id"));
  return ids;
}

// The same flags, and another run: nothing that was run on the old file is taken for it.
TEST_F(Studied, AChangedModelFileIsRunAgain) {
  ASSERT_EQ(lockstep("train -n 1 --model mlp:width=16,depth=1 --data digits:samples=40,"
                     "test_samples=20 --batch 20 --epochs 1 --out " +
                     at("run"))
                .status,
            0);
  const std::string text = std::string(
                               "title = \"Small\"\n[base]\ndata = "
                               "\"digits:samples=40,test_samples=20\"\nbatch = 20\nepochs = "
                               "1\nworkers = 1\nmodel = \"") +
                           at("m.pt") + "\"\n";
  fs::copy_file(at("run/model.pt"), at("m.pt"));
  study(text, "--json");
  const auto before = ids_of(plan());
  study(text, "--json");
  EXPECT_EQ(ids_of(plan()), before);
  std::ofstream(at("m.pt"), std::ios::app) << "x";
  study(text, "--json");
  EXPECT_NE(ids_of(plan()), before);
}

TEST_F(Studied, AKilledWorkerIsRecordedAndTheStudyGoesOn) {
  const Outcome outcome = study(std::string(kBase) + R"(
[[variant]]
name = "dies"
cluster = "local"
fault = "kill:rank=1,after=3"
[[variant]]
name = "ring"
collective = "ring"
)");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("1 of 2 runs done, 1 failed"));
  EXPECT_THAT(plan()["runs"][0]["reason"].get<std::string>(), HasSubstr("rank 1"));
  EXPECT_TRUE(
      fs::exists(at("out/runs/" + plan()["runs"][0]["id"].get<std::string>() + "/stderr.txt")));
}

TEST_F(Studied, DryRunSaysWhatWouldRunAndWritesNothing) {
  const Outcome outcome = study(std::string(kBase) + kVariants, "--dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("lockstep train --batch 20 "));
  EXPECT_THAT(outcome.out, HasSubstr("2 runs, 0 of them done"));
  EXPECT_FALSE(fs::exists(at("out")));
}

TEST_F(Studied, CtrlCStopsTheRunAndLeavesTheRestToTheNextCall) {
  std::ofstream(at("a.toml")) << kBase << "steps = 100000000\n[repeat]\ntimes = 2\n" << kVariants;
  const pid_t pid = fork();
  if (pid == 0) {
    if (!std::freopen("/dev/null", "w", stdout)) _exit(126);
    execl(LOCKSTEP_PROGRAM, "lockstep", "study", at("a.toml").c_str(), "--out", at("out").c_str(),
          nullptr);
    _exit(127);
  }
  const auto begun = [&] {
    if (!fs::exists(at("out/runs"))) return false;
    for (const auto& run : fs::directory_iterator(at("out/runs")))
      if (fs::exists(run.path() / "run.json")) return true;
    return false;
  };
  int status = 0;
  bool ended = false;
  while (!begun() && !(ended = waitpid(pid, &status, WNOHANG) == pid)) poll(nullptr, 0, 5);
  ASSERT_FALSE(ended) << "it ended by itself";
  kill(pid, SIGINT);
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(plan()["runs"][0]["status"], "stopped");
  EXPECT_EQ(plan()["runs"][1]["status"], "not run");
  EXPECT_TRUE(fs::exists(at("out/results.csv")));
}

TEST_F(Studied, BenchmarksCanBeStudiedToo) {
  const Outcome outcome = study(R"(
title = "Bench"
command = "bench allreduce"
[base]
transport = "simulated"
b = "4K"
e = "4K"
[grid]
collectives = ["ring", "tree"]
workers = [2, 4]
)");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(runs(), 4u);
}

struct WrongStudy {
  std::string text, said;
  friend void PrintTo(const WrongStudy& w, std::ostream* out) { *out << w.text; }
};
class StudyMistake : public Studied, public ::testing::WithParamInterface<WrongStudy> {};

TEST_P(StudyMistake, IsOneSentenceWithItsLineAndNothingIsRun) {
  expect_refused(study(std::string(kBase) + GetParam().text), {GetParam().text, GetParam().said});
  EXPECT_FALSE(fs::exists(at("out")));
}

INSTANTIATE_TEST_SUITE_P(
    Files, StudyMistake,
    ::testing::Values(
        WrongStudy{"[grid", "a.toml:11: "},
        WrongStudy{"[[variant]]\nname = \"ring\"\nstrategy = \"step-wize\"",
                   "did you mean 'step-wise'"},
        WrongStudy{"[[variant]]\nname = \"ring\"\n[grid]\nwokers = [1]",
                   "a.toml:14: unknown flag of train 'wokers': did you mean 'workers'"},
        WrongStudy{"[[variant]]\nname = \"ring\"\n[grid]\nworkers = [0]",
                   "--workers must be from 1"},
        WrongStudy{"[[variant]]\nname = \"ring\"\nmodel = \"mlpp\"", "did you mean 'mlp'"},
        WrongStudy{"[[variant]]\nname = \"ring\"\ndata = \"mnits\"", "did you mean 'mnist'"},
        WrongStudy{"[[variant]]\nname = \"ring\"\nprofile-out = \"p.json\"",
                   "unknown flag of train 'profile-out'"},
        WrongStudy{"[[variant]]\nname = \"ring\"\nseed = 3", "unknown flag of train 'seed'"}));

TEST_F(Studied, WhatCantBeStudiedIsTold) {
  expect_refused(study("title = \"x\"\ncommand = \"tran\""), {"", "did you mean 'train'"});
  expect_refused(lockstep("study /nowhere.toml"), {"", "/nowhere.toml"});
  expect_refused(lockstep("study"), {"", "which study?"});
  expect_refused(lockstep("report /nowhere"), {"", "/nowhere"});
}

TEST_F(Studied, AFolderThatCantBeWrittenIsRefusedBeforeAnythingRuns) {
  std::ofstream(at("out")) << "a file";
  const Outcome outcome = study(std::string(kBase) + kVariants);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("choose another"));
}

}  // namespace
}  // namespace lockstep
