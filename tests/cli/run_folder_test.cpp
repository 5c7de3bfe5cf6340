// A run's folder under attack: by a second owner, a copy, a hostile manifest, damaged checkpoints,
// signals, readers that leave or stall, and a full disk.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "cli/running.h"
#include "cli/small_training.h"
#include "eventually.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator(in), {}};
}

// Every file below, by name: a number that changes with its content.
std::map<std::string, std::size_t> content_of(const std::string& folder) {
  std::map<std::string, std::size_t> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      all[entry.path()] = std::hash<std::string>()(text_of(entry.path()));
  return all;
}

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RunFolders : public SmallTraining {
 protected:
  // Until it is killed or stopped.
  static std::string endless(const std::string& flags) {
    return std::string("train ") + kSmall + "--epochs 1000000 " + flags;
  }
  void await(const std::string& path) const {
    ASSERT_TRUE(eventually([&] { return fs::exists(path); }, 60)) << path;
  }
  void change_manifest(const std::string& checkpoint, const std::function<void(Json&)>& change) {
    Json manifest = read(checkpoint + "/manifest.json");
    change(manifest);
    std::ofstream(checkpoint + "/manifest.json") << manifest;
  }
};

TEST_F(RunFolders, HaveOneOwnerWhileItLives) {
  Running first(endless("-n 2 --checkpoint-every 5 --out " + at("run")), at("err"));
  await(at("run/checkpoints/step-5"));
  const Outcome resumed = lockstep("train --resume " + at("run"));
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.err, HasSubstr("is being written by pid " + std::to_string(first.pid())));
  const Outcome again = train("--out " + at("run"));
  EXPECT_EQ(again.status, 2) << again.err;
  EXPECT_EQ(read(at("run/run.json"))["status"], "running");
  first.send(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  // Its workers end with it; the folder can be had as soon as the launcher is gone.
  const Outcome report = lockstep("report " + at("run"));
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(text_of(at("run/report.html")), HasSubstr("ended without a word"));
  const Outcome later =
      lockstep("train --json --steps 2000000 --epochs 1 --dry-run --resume " + at("run"));
  EXPECT_EQ(later.status, 0) << later.err;
  EXPECT_THAT(later.err, AllOf(HasSubstr("the run had failed: its process (pid "),
                               HasSubstr("ended without a word")));
}

// Workers that go apart meet at the end alone; what they were scored till then is on disk.
TEST_F(RunFolders, KeepTheScoresOfAnAsynchronousRunThatIsKilled) {
  for (const std::string strategy : {"asp", "gossip"}) {
    const std::string metrics = at(strategy + "/metrics.jsonl");
    Running run(
        endless("-n 2 --evaluate-every 20 --strategy " + strategy + " --out " + at(strategy)),
        at("err"));
    ASSERT_TRUE(eventually([&] { return count_of("\n", text_of(metrics)) >= 3; }, 60)) << strategy;
    run.send(SIGKILL);
    EXPECT_EQ(run.wait(), 128 + SIGKILL);
    std::istringstream lines(text_of(metrics));
    int scores = 0;
    for (std::string line; std::getline(lines, line); ++scores)
      EXPECT_GT(Json::parse(line).at("steps"), 0) << line;
    EXPECT_GE(scores, 3);
  }
}

TEST_F(RunFolders, ACopyNeverWritesIntoTheOriginal) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 4 --out " + at("run")).status, 0);
  fs::copy(at("run"), at("copy"), fs::copy_options::recursive);
  const auto before = content_of(at("run"));
  const Outcome resumed = lockstep("train --json --epochs 2 --resume " + at("copy"));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(content_of(at("run")), before);
  EXPECT_EQ(read(at("copy/run.json"))["result"]["steps"], 20);
}

TEST_F(RunFolders, AManifestNeverChoosesWhereToWrite) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 4 --out " + at("run")).status, 0);
  std::ofstream(at("victim")) << "precious";
  for (const char* step : {"run/checkpoints/step-4", "run/checkpoints/step-8"})
    change_manifest(at(step), [&](Json& manifest) {
      manifest["about"]["config"]["out"] = at("elsewhere");
      manifest["about"]["config"]["profile_out"] = at("victim");
    });
  const Outcome resumed = lockstep("train --resume " + at("run"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(text_of(at("victim")), "precious");
  EXPECT_FALSE(fs::exists(at("elsewhere")));
  // Alone, a checkpoint has no run's folder to write to: it goes on in a new one.
  fs::rename(at("run/checkpoints/step-8"), at("alone"));
  const Outcome alone = lockstep("train --resume " + at("alone") + " --out " + at("new"));
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_FALSE(fs::exists(at("elsewhere")));
  const Outcome other = lockstep("train --resume " + at("alone") + " --out " + at("run"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("holds a run already"));
}

TEST_F(RunFolders, AResumeThatFailsOnOneRankChangesNothing) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 4 --out " + at("run")).status, 0);
  // Well signed, and of another model: only rank 1, when it reads it, can know.
  const std::string checkpoint = at("run/checkpoints/step-8");
  change_manifest(checkpoint, [&](Json& manifest) {
    manifest["files"]["rank-1.weights"] = manifest["files"]["rank-1.statistics"];
    fs::copy_file(checkpoint + "/rank-1.statistics", checkpoint + "/rank-1.weights",
                  fs::copy_options::overwrite_existing);
  });
  const auto before = content_of(at("run"));
  const Outcome resumed = lockstep("train --json --resume " + at("run"));
  EXPECT_EQ(resumed.status, 2) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("it is of another model"));
  ASSERT_EQ(resumed.json().size(), 1u);
  EXPECT_EQ(resumed.json()[0]["status"], "failed") << "and not the result of before";
  auto after = content_of(at("run"));
  EXPECT_EQ(after, before);
}

TEST_F(RunFolders, ARunThatGoesOnKeepsWhatItHadComeTo) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 4 --out " + at("run")).status, 0);
  const Json before = read(at("run/run.json"))["result"];
  const Outcome resumed =
      lockstep("train --epochs 50 --fault kill:rank=1,after=300 --resume " + at("run"));
  EXPECT_EQ(resumed.status, 137) << resumed.err;
  const Json run = read(at("run/run.json"));
  EXPECT_EQ(run["status"], "failed");
  ASSERT_TRUE(run.contains("previous"));
  EXPECT_EQ(run["previous"]["result"], before);
  EXPECT_EQ(run["previous"]["status"], "done");
}

TEST_F(RunFolders, ADamagedCheckpointIsPassedOver) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 4 --out " + at("run")).status, 0);
  fs::resize_file(at("run/checkpoints/step-8/rank-1.weights"), 17);
  const Outcome resumed = lockstep("train --json --resume " + at("run"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("goes on from " + at("run/checkpoints/step-4")),
                                 HasSubstr("rank-1.weights is cut")));
}

TEST_F(RunFolders, KeepsAsManyCheckpointsAsAskedFor) {
  ASSERT_EQ(train("-n 2 --checkpoint-every 2 --keep 3 --out " + at("run")).status, 0);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(at("run/checkpoints")))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"step-6", "step-8", "step-10"}));
}

TEST_F(RunFolders, SettingsAndContentThatMatterCantChange) {
  ASSERT_EQ(lockstep("data make images --to " + at("images") +
                     " --classes 2 --per-class 8 --val-per-class 4 --size 32x32")
                .status,
            0);
  const std::string flags = "train --model mlp:width=8,depth=1 --batch 4 --epochs 1 --data " +
                            at("images") + ":size=32 --checkpoint-every 1 --out " + at("run");
  const Outcome first = lockstep(flags);
  ASSERT_EQ(first.status, 0) << first.err;
  for (const char* change : {"--lr-schedule cosine", "--warmup-epochs 1", "--test-limit 3",
                             "--collective ring", "--lr-scaling linear"}) {
    const Outcome other = lockstep("train --resume " + at("run") + " " + change);
    EXPECT_EQ(other.status, 2) << change;
    EXPECT_THAT(other.err, HasSubstr("can't go on with")) << change;
  }
  std::vector<fs::path> pictures;
  for (const auto& entry : fs::recursive_directory_iterator(at("images")))
    if (entry.is_regular_file() && entry.path().extension() == ".jpg")
      pictures.push_back(entry.path());
  ASSERT_GT(pictures.size(), 2u);
  std::ranges::sort(pictures);
  fs::copy_file(pictures[0], pictures[1], fs::copy_options::overwrite_existing);
  const Outcome other = lockstep("train --resume " + at("run"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("the data changed since the checkpoint"));
}

TEST_F(RunFolders, AFileNameOfAnyBytesDoesNotFailARun) {
  ASSERT_EQ(lockstep("data make images --to " + at("images") +
                     " --classes 2 --per-class 8 --val-per-class 4 --size 32x32")
                .status,
            0);
  for (const auto& entry : fs::recursive_directory_iterator(at("images/train")))
    if (entry.is_regular_file()) {
      std::ofstream((entry.path().parent_path() / "bad\xff.jpg").string()) << "no picture";
      break;
    }
  const Outcome outcome =
      lockstep("train --json --model mlp:width=8,depth=1 --batch 4 --epochs 1 --data " +
               at("images") + " --out " + at("run\xfe"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.json().at(0)["damaged_files"].dump(), HasSubstr("bad\xEF\xBF\xBD.jpg"));
  EXPECT_EQ(read(at("run\xfe") + "/run.json")["status"], "done");
  const Outcome refused = lockstep("train --data " + at("no\xff"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("not UTF-8"));
}

// Told to stop in each world, it takes the same number of steps on all ranks and writes them down.
// How a signal arrives differs between processes, threads and simulation, and not between
// strategies.
struct StoppedWorld {
  std::string flags;
  int signal;
  friend void PrintTo(const StoppedWorld& w, std::ostream* out) {
    *out << w.flags << ", signal " << w.signal;
  }
};
std::vector<StoppedWorld> stopped_worlds() {
  std::vector<StoppedWorld> all;
  for (const char* flags : {"-n 3", "-n 3 --transport loopback", "-n 3 --cluster sim:step=10ms"})
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) all.push_back({flags, signal});
  for (const char* flags :
       {"-n 2 --strategy bsp", "-n 2 --strategy local-sgd:period=8", "-n 2 --strategy asp",
        "-n 3 --strategy gossip",
        "-n 3 --strategy ssp:staleness=1 --cluster sim:step=10ms,slow=rank1:3.0",
        "-n 3 --strategy ad-psgd"})
    all.push_back({flags, SIGINT});
  return all;
}
class StoppedRuns : public RunFolders, public ::testing::WithParamInterface<StoppedWorld> {};
INSTANTIATE_TEST_SUITE_P(Worlds, StoppedRuns, ::testing::ValuesIn(stopped_worlds()),
                         [](const auto& info) { return "World" + std::to_string(info.index); });

TEST_P(StoppedRuns, LeaveACheckpoint) {
  const auto& [flags, signal] = GetParam();
  const std::string out = at("run");
  Running run(endless(flags + " --checkpoint-every 1000000000 --out " + out), at("err"));
  const auto trains = [&] {
    const std::string samples = text_of(out + "/worker-0.jsonl");
    return std::ranges::count(samples, '\n') > 3;
  };
  ASSERT_TRUE(eventually(trains, 60)) << run.errors();
  run.send(signal);
  run.read_rest();
  EXPECT_EQ(run.wait(), 128 + signal) << run.errors();
  const Json stopped = read(out + "/run.json");
  EXPECT_EQ(stopped["status"], "stopped");
  EXPECT_THAT(stopped["reason"].get<std::string>(), HasSubstr("told to stop by SIG"));
  ASSERT_TRUE(fs::exists(out + "/checkpoints")) << run.errors();
  const std::string newest = fs::directory_iterator(out + "/checkpoints")->path();
  const int steps = read(newest + "/manifest.json")["about"]["step"];
  EXPECT_GE(steps, 1);
  const Outcome resumed =
      lockstep("train --json --resume " + out + " --steps " + std::to_string(steps + 3));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().at(0)["steps"], steps + 3);
}

// As processes, and in the process that also prints.
class Readers : public RunFolders, public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Readers,
                         ::testing::Values("-n 2", "-n 2 --transport loopback",
                                           "-n 2 --cluster sim:step=10ms"),
                         [](const auto& info) { return "World" + std::to_string(info.index); });

TEST_P(Readers, ThatLeaveEndNoRun) {
  Running run(std::string("train ") + kSmall + "--epochs 20 " + GetParam() + " --out " + at("run"),
              at("err"));
  run.read_line();
  run.stop_reading();
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(read(at("run/run.json"))["status"], "done");
}

TEST_P(Readers, ThatStallStopNoRunAndLoseNoResult) {
  Running run(std::string("train ") + kSmall + "--epochs 400 " + GetParam() + " --out " + at("run"),
              at("err"), true);
  ASSERT_TRUE(eventually(
      [&] {
        return fs::exists(at("run/model.pt")) && read(at("run/run.json"))["status"] == "done";
      },
      90));
  const std::string out = run.read_rest();
  EXPECT_GT(out.size(), 20000u) << "more than the pipe held";
  EXPECT_EQ(count_of("epoch ", out), 400u);
  EXPECT_THAT(out, EndsWith("run: " + at("run") + "\n"));
  EXPECT_EQ(run.wait(), 0) << run.errors();
}

TEST_P(Readers, ThatStallMakeNobodyDeafToCtrlC) {
  Running run(endless(GetParam() + " --out " + at("run")), at("err"), true);
  ASSERT_TRUE(eventually(
      [&] {
        const std::string lines = text_of(at("run/metrics.jsonl"));
        return std::ranges::count(lines, '\n') > 100;  // some 9 KB of output
      },
      90));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(20), 130) << run.errors();
  EXPECT_EQ(read(at("run/run.json"))["status"], "stopped");
}

// With --json all but the result is said on stderr, where main() has the last word.
TEST_P(Readers, ThatStallAtStderrMakeNobodyDeafToCtrlC) {
  Running run(endless(GetParam() + " --json --out " + at("run")), "", true);
  ASSERT_TRUE(eventually(
      [&] {
        const std::string lines = text_of(at("run/metrics.jsonl"));
        return std::ranges::count(lines, '\n') > 100;
      },
      90));
  run.fill_pipe();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(20), 130);
  EXPECT_EQ(read(at("run/run.json"))["status"], "stopped");
}

// Signals at any moment: before and while workers start, and again while they end.
TEST_P(Readers, OfRunJsonSeeItsEndWheneverCtrlCCame) {
  for (const int ms : {300, 900, 1500, 2500}) {
    const std::string out = at("run" + std::to_string(ms));
    Running run(endless(GetParam() + " --out " + out), at("err"));
    poll(nullptr, 0, ms);
    run.send(SIGINT);
    run.send(SIGINT);
    poll(nullptr, 0, 20);
    run.send(SIGINT);
    run.read_rest();
    EXPECT_EQ(run.wait(20), 130) << ms << run.errors();
    if (fs::exists(out + "/run.json")) {
      EXPECT_EQ(read(out + "/run.json")["status"], "stopped") << ms;
    }
  }
}

class Signals : public RunFolders {
 protected:
  void await_training(const std::string& out) const {
    ASSERT_TRUE(eventually(
        [&] {
          const std::string lines = text_of(out + "/metrics.jsonl");
          return std::ranges::count(lines, '\n') > 2;
        },
        90));
  }
  static char state_of(pid_t pid) {
    const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
    const auto name_end = stat.rfind(") ");
    return name_end == stat.npos ? 'X' : stat[name_end + 2];
  }
};

#ifdef EARLY_SIGNAL
// After the program has its handler, and before its launcher takes signals itself.
TEST_F(Signals, CtrlCJustBeforeWorkersStartStopsARun) {
  Running run(std::string("train ") + kSmall + "--epochs 3 -n 2 --out " + at("run"), at("err"),
              false, {"env", "LD_PRELOAD=" EARLY_SIGNAL});
  run.read_rest();
  EXPECT_EQ(run.wait(), 130) << run.errors();
  EXPECT_EQ(read(at("run/run.json"))["status"], "stopped");
}
#endif

TEST_F(Signals, CtrlZStopsARunUntilItMayGoOn) {
  Running run(endless("-n 2 --out " + at("run")), at("err"));
  await_training(at("run"));
  std::vector<pid_t> all = run.children();
  EXPECT_EQ(all.size(), 2u);
  all.push_back(run.pid());
  run.send(SIGTSTP);
  for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return state_of(pid) == 'T'; }));
  const std::size_t before = text_of(at("run/metrics.jsonl")).size();
  run.send(SIGCONT);
  EXPECT_TRUE(eventually([&] { return text_of(at("run/metrics.jsonl")).size() > before; }));
  run.send(SIGINT);
  run.read_rest();
  EXPECT_EQ(run.wait(), 130) << run.errors();
}

TEST_F(Signals, ALauncherThatIsStoppedAloneStopsNoTraining) {
  Running run(endless("-n 2 --out " + at("run")), at("err"));
  await_training(at("run"));
  run.send(SIGSTOP);
  // What a worker tells of so many scores is more than its pipe holds.
  const std::size_t more = text_of(at("run/metrics.jsonl")).size() + 60000;
  EXPECT_TRUE(eventually([&] { return text_of(at("run/metrics.jsonl")).size() > more; }, 90));
  run.send(SIGCONT);
  run.send(SIGINT);
  run.read_rest();
  EXPECT_EQ(run.wait(), 130) << run.errors();
}

TEST_F(Signals, AWorkerThatSomebodyTerminatedFailsTheRun) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGKILL}) {
    const std::string out = at("run" + std::to_string(signal));
    Running run(endless("-n 2 --json --out " + out), at("err"));
    await_training(out);
    kill(run.children().at(0), signal);
    const std::string said = run.read_rest();
    EXPECT_EQ(run.wait(), 128 + signal) << run.errors();
    const Json failed = read(out + "/run.json");
    EXPECT_EQ(failed["status"], "failed");
    EXPECT_EQ(Json::parse(said)["status"], "failed");
    EXPECT_THAT(failed["reason"].get<std::string>(),
                HasSubstr("died of signal " + std::to_string(signal)));
  }
}

// It passes that on to the others, and all stop after the same step.
TEST_F(Signals, AWorkerThatIsToldToStopWhereCheckpointsAreOnStopsTheRun) {
  Running run(endless("-n 2 --checkpoint-every 1000000000 --out " + at("run")), at("err"));
  await_training(at("run"));
  kill(run.children().at(0), SIGTERM);
  run.read_rest();
  EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.errors();
  const Json stopped = read(at("run/run.json"));
  EXPECT_EQ(stopped["status"], "stopped");
  EXPECT_THAT(stopped["reason"].get<std::string>(),
              AllOf(HasSubstr("a worker was told to stop by SIGTERM"), HasSubstr("checkpoint is")));
}

TEST_F(Signals, NohupKeepsARunWhenTheTerminalCloses) {
  for (const std::string transport : {"auto", "loopback"}) {
    const std::string out = at(transport);
    Running run(std::string("train ") + kSmall + "-n 2 --epochs 100 --transport " + transport +
                    " --out " + out,
                at("err"), false, {"sh", "-c", "trap '' HUP; exec \"$@\"", "sh"});
    await_training(out);
    run.send(SIGHUP);
    run.read_rest();
    EXPECT_EQ(run.wait(), 0) << run.errors();
    EXPECT_EQ(read(out + "/run.json")["status"], "done");
  }
}

TEST_F(Signals, EndAStudyAndItsRun) {
  std::ofstream(at("study.toml")) << "title = \"Endless\"\n[base]\n"
                                     "model = \"mlp:width=16,depth=1\"\n"
                                     "data = \"digits:samples=400,test_samples=100\"\n"
                                     "batch = 20\nworkers = 2\nepochs = 1000000\n";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string out = at("study" + std::to_string(signal));
    Running study("study " + at("study.toml") + " --out " + out, at("err"));
    const auto run = [&]() -> std::string {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(out + "/runs", none)) return entry.path();
      return "";
    };
    ASSERT_TRUE(eventually([&] { return text_of(run() + "/metrics.jsonl").size() > 100; }, 90))
        << study.errors();
    if (signal == SIGINT) {
      const std::vector<pid_t> launcher = study.children();
      ASSERT_EQ(launcher.size(), 1u);
      study.send(SIGTSTP);
      EXPECT_TRUE(eventually([&] { return state_of(study.pid()) == 'T'; }));
      EXPECT_EQ(state_of(launcher[0]), 'T');
      study.send(SIGCONT);
      const std::size_t before = text_of(run() + "/metrics.jsonl").size();
      EXPECT_TRUE(eventually([&] { return text_of(run() + "/metrics.jsonl").size() > before; }));
    }
    study.send(signal);
    study.read_rest();
    EXPECT_EQ(study.wait(), 128 + signal) << study.errors();
    EXPECT_EQ(read(run() + "/run.json")["status"], "stopped");
  }
}

// A file system of so many KiB at at("disk"), for one shell command.
class FullDisk : public RunFolders {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    fs::create_directories(at("disk"));
    fs::create_directories(at("saved"));
  }
  Outcome train_on(int kib, const std::string& before, const std::string& flags) const {
    const std::string script = "mount -t tmpfs -o size=" + std::to_string(kib) + "k none " +
                               at("disk") + " && { " + before + " " LOCKSTEP_PROGRAM " train " +
                               kSmall + flags + " --out " + at("disk/run") + "; status=$?; cp -r " +
                               at("disk/run") + " " + at("saved") + "; exit $status; }";
    std::ofstream(at("script.sh")) << script;
    const std::string errors = at("err");
    Outcome outcome;
    const int status = std::system(
        ("unshare -m sh " + at("script.sh") + " >" + at("out") + " 2>" + errors).c_str());
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = text_of(at("out"));
    outcome.err = text_of(errors);
    return outcome;
  }
};

TEST_F(FullDisk, DoesNotEndARunThatOnlyWatchesItself) {
  for (const std::string world : {"-n 2", "-n 2 --transport loopback"}) {
    fs::remove_all(at("saved/run"));
    const Outcome outcome =
        train_on(700, "", "--epochs 300 --sample-every 0.001 --timeline all " + world);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(count_of("are not written to", outcome.out + outcome.err), 1u)
        << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("No space left on device"));
    const Json run = read(at("saved/run/run.json"));
    EXPECT_EQ(run["status"], "done");
    EXPECT_EQ(run["result"]["score_by_epoch"].size(), 300u);
    EXPECT_GT(fs::file_size(at("saved/run/model.pt")), 10000u);
    EXPECT_FALSE(read(at("saved/run/timeline.json")).empty()) << "whole";
    EXPECT_FALSE(last_sample("saved/run", 0).empty());
  }
}

TEST_F(FullDisk, LeavesTheCheckpointsThatWereThere) {
  for (const std::string keep : {"1", "2"}) {
    fs::remove_all(at("saved/run"));
    // Room for one checkpoint (some 110 KB a rank) and not for two.
    const Outcome outcome = train_on(
        700, "", "-n 2 --checkpoint-every 4 --sample-every 0 --timeline none --keep " + keep);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("the checkpoint after step 8 was not kept"),
                                   HasSubstr("No space left on device")));
    EXPECT_TRUE(fs::exists(at("saved/run/checkpoints/step-4/manifest.json")));
    EXPECT_EQ(std::distance(fs::directory_iterator(at("saved/run/checkpoints")),
                            fs::directory_iterator()),
              1);
  }
}

TEST_F(FullDisk, HasRoomForACheckpointOnceHalfOfAnotherIsGone) {
  const std::string left = at("disk/run/checkpoints/step-2.partial");
  const Outcome outcome = train_on(
      700, "mkdir -p " + left + " && head -c 200000 /dev/zero > " + left + "/rank-0.weights &&",
      "-n 2 --checkpoint-every 8 --sample-every 0 --timeline none");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(at("saved/run/checkpoints/step-8/manifest.json"))) << outcome.out;
}

TEST_F(FullDisk, IsNamedBeforeARunStarts) {
  const Outcome outcome =
      train_on(300, "head -c 200000 /dev/zero > " + at("disk/other") + ";", "-n 2");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace lockstep
