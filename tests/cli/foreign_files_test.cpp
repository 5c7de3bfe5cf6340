// Files that somebody else made: links, FIFOs, nests without end and other damage where files of
// ours are expected. Nothing hangs, nothing is written elsewhere, and one sentence says what is
// wrong.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/mistake.h"
#include "cli/small_training.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator(in), {}};
}

void make_fifo(const std::string& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0) << path; }

constexpr const char* kStudy = R"(
title = "Small"
[base]
model = "mlp:width=16,depth=1"
data = "digits:samples=40,test_samples=20"
batch = 20
epochs = 1
workers = 1
cluster = "sim:step=1ms"
)";

// What would hang ends with status 124.
constexpr const char* kPatience = "timeout -k 5 60";
Outcome patiently(const std::string& arguments) { return lockstep(arguments, kPatience); }

class ForeignFiles : public SmallTraining {
 protected:
  Outcome train(const std::string& arguments) const {
    return patiently(std::string("train --threads 1 ") + kSmall + arguments);
  }
  // Ten steps; the checkpoints after 4 and 8 are kept.
  void make_run() const {
    const Outcome outcome =
        train("-n 1 --transport loopback --limit 200 --checkpoint-every 4 --out " + at("run"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  static void change(const std::string& path, const std::function<void(Json&)>& change) {
    Json json = read(path);
    change(json);
    std::ofstream(path) << json;
  }
};

// Of every kind of file that a run writes, under its name and the one it is written under first.
class ALinkInARunsFolder : public ForeignFiles,
                           public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Names, ALinkInARunsFolder,
                         ::testing::Values("owner.json", "run.json.partial", "reserve",
                                           "metrics.jsonl", "worker-1.jsonl",
                                           "timeline.json.partial", "model.pt.partial",
                                           "events.out.tfevents.lockstep"),
                         [](const auto& info) { return "Name" + std::to_string(info.index); });

TEST_P(ALinkInARunsFolder, IsNeverWrittenThrough) {
  std::ofstream(at("victim")) << "precious";
  fs::create_directories(at("run"));
  fs::create_symlink(at("victim"), at("run/" + GetParam()));
  expect_refused(train("-n 2 --tensorboard --out " + at("run")),
                 {"", "/run/" + GetParam() + " is a link"});
  EXPECT_EQ(text_of(at("victim")), "precious");
}

TEST_F(ForeignFiles, ALinkedFolderOfCheckpointsIsNeverWrittenTo) {
  make_run();
  fs::rename(at("run/checkpoints"), at("elsewhere"));
  fs::create_directory_symlink(at("elsewhere"), at("run/checkpoints"));
  const Outcome outcome = patiently("train --epochs 2 --resume " + at("run"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/run/checkpoints is a link"));
  EXPECT_FALSE(fs::exists(at("elsewhere/step-12")));
}

TEST_F(ForeignFiles, ARunsFolderMayBeALinkThatTheUserNamed) {
  fs::create_directories(at("large-disk"));
  fs::create_directory_symlink(at("large-disk"), at("run"));
  make_run();
  EXPECT_TRUE(fs::exists(at("large-disk/model.pt")));
}

TEST_F(ForeignFiles, AFifoInARunsFolderIsNotWaitedFor) {
  for (const char* name : {"owner.json", "metrics.jsonl", "worker-0.jsonl"}) {
    fs::remove_all(at("run"));
    fs::create_directories(at("run"));
    make_fifo(at("run/") + name);
    expect_refused(train("-n 2 --out " + at("run")), {"", "is no ordinary file"});
  }
}

TEST_F(ForeignFiles, AFifoThatShouldBeReadIsNotWaitedFor) {
  make_run();
  fs::copy(at("run"), at("copy"), fs::copy_options::recursive);
  fs::remove(at("run/run.json"));
  make_fifo(at("run/run.json"));
  expect_refused(patiently("report " + at("run")), {"", "run.json is damaged"});
  expect_refused(patiently("train --resume " + at("run")), {"", "/run/run.json"});
  for (const char* step : {"4", "8"}) {
    const std::string manifest = at("copy/checkpoints/step-") + step + "/manifest.json";
    fs::remove(manifest);
    make_fifo(manifest);
  }
  expect_refused(patiently("train --resume " + at("copy")), {"", "it is not an ordinary file"});
  make_fifo(at("fifo.toml"));
  expect_refused(patiently("study " + at("fifo.toml")), {"", "it is not an ordinary file"});
  expect_refused(patiently("train " + at("fifo.toml")), {"", "it is not an ordinary file"});
  expect_refused(train("--cluster sim:profile=" + at("fifo.toml")),
                 {"", "it is not an ordinary file"});
}

TEST_F(ForeignFiles, AManifestNeverChoosesWhereToFetchTo) {
  make_run();
  std::ofstream(at("npm")) << "#!/bin/sh\ntouch " << at("fetched") << "\nexit 1\n";
  fs::permissions(at("npm"), fs::perms::owner_all);
  for (const char* step : {"4", "8"})
    change(at("run/checkpoints/step-") + step + "/manifest.json", [&](Json& manifest) {
      manifest["about"]["config"]["data"] = "mnist:dir=" + at("elsewhere");
    });
  const Outcome outcome =
      lockstep("train --resume " + at("run"), "PATH=" + folder_.path() + ":$PATH");
  expect_refused(outcome, {"", "lockstep data fetch mnist --to " + at("elsewhere")});
  EXPECT_FALSE(fs::exists(at("elsewhere")));
  EXPECT_FALSE(fs::exists(at("fetched")));
}

std::string nested(const std::string& opening, int levels = 300000) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += opening;
  return text;
}
std::string deep_list() { return nested("[") + nested("]"); }

TEST_F(ForeignFiles, NestsWithoutEndAreRefused) {
  make_run();
  const std::string run = text_of(at("run/run.json"));
  const auto with_deep = [](std::string json, const std::string& key) {
    const auto at = json.find("\"" + key + "\":");
    EXPECT_NE(at, json.npos);
    return json.replace(at, key.size() + 3, "\"" + key + "\":" + deep_list() + ",\"other\":");
  };
  for (const char* key : {"workers", "machine", "result", "reason"}) {
    const std::string text = std::string(key) == "reason"
                                 ? "{\"reason\":" + deep_list() + "," + run.substr(1)
                                 : with_deep(run, key);
    std::ofstream(at("run/run.json")) << text;
    expect_refused(patiently("report " + at("run")), {"", "run.json is damaged"});
    expect_refused(patiently("train --resume " + at("run")), {"", "run.json is not a run's"});
  }
  std::ofstream(at("run/run.json")) << run;
  for (const char* step : {"4", "8"}) {
    const std::string path = at("run/checkpoints/step-") + step + "/manifest.json";
    const std::string text = with_deep(text_of(path), "workers");
    std::ofstream(path) << text;
  }
  expect_refused(patiently("train --resume " + at("run")), {"", "manifest.json is damaged"});
  std::ofstream(at("run/metrics.jsonl")) << deep_list() << "\n{\"steps\":" << deep_list() << "}\n";
  EXPECT_EQ(patiently("report " + at("run")).status, 0);
}

TEST_F(ForeignFiles, NestedTomlIsRefused) {
  const std::string deep_key = "a" + nested(".a", 200000);
  for (const std::string& text :
       {deep_key + " = 1\n", "[" + deep_key + "]\n", "x = " + deep_list() + "\n",
        "x = " + nested("{ a = ") + "\n", "\"a.b\" = 'c.d'\n[[" + deep_key + "]]\n"}) {
    std::ofstream(at("deep.toml")) << text;
    expect_refused(patiently("train " + at("deep.toml")), {"", at("deep.toml") + ":"});
    expect_refused(patiently("study " + at("deep.toml")), {"", at("deep.toml") + ":"});
  }
}

// Wrong types and cut lines, well-formed or not.
TEST_F(ForeignFiles, DamagedRecordsAreNamedOrPassedOver) {
  make_run();
  const std::string run = text_of(at("run/run.json"));
  const std::vector<std::function<void(Json&)>> damages{
      [](Json& json) { json["config"] = 7; },
      [](Json& json) {
        json["config"]["faults"] = {1, 2};
      },
      [](Json& json) { json["machine"]["kernel"] = 6; },
      [](Json& json) { json["result"]["workers_detail"] = 1; },
      [](Json& json) { json["result"]["workers_detail"][0]["role"] = 1; },
      [](Json& json) { json["result"]["workers_detail"][0] = "x"; },
      [](Json& json) { json["result"] = "x"; },
      [](Json& json) { json = Json::array(); }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    std::ofstream(at("run/run.json")) << run;
    change(at("run/run.json"), damages[i]);
    SCOPED_TRACE(i);
    expect_refused(patiently("report " + at("run")), {"", at("run/run.json") + " is damaged"});
  }
  std::ofstream(at("run/run.json")) << run.substr(0, run.size() / 2);
  expect_refused(patiently("report " + at("run")), {"", at("run/run.json") + " is damaged"});
  expect_refused(patiently("train --resume " + at("run")), {"", "/run/run.json"});
  std::ofstream(at("run/run.json")) << run;
  for (const char* file : {"metrics.jsonl", "worker-0.jsonl"})
    std::ofstream(at("run/") + file)
        << "{\"steps\":\"x\",\"ends_epoch\":true}\n{\"steps\":4,\"ends_epoch\":7,\"accuracy\":[]}\n"
           "{\"t\":1,\"network\":3}\n{\"t\":{},\"step\":\"x\"}\n7\n{\"steps\":10,\"ends_";
  EXPECT_EQ(patiently("report " + at("run")).status, 0);
  const Outcome resumed = patiently("train --epochs 2 --resume " + at("run"));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
}

TEST_F(ForeignFiles, AnOwnersFileOfAnyContentEndsNothing) {
  fs::create_directories(at("run"));
  for (const char* text : {"[]", "{\"pid\":\"x\",\"host\":7,\"inode\":[]}", "{\"pid\":{}}", "{"}) {
    fs::remove_all(at("run"));
    fs::create_directories(at("run"));
    std::ofstream(at("run/owner.json")) << text;
    const Outcome outcome = train("-n 1 --transport loopback --out " + at("run"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

// Well signed, so that only reading it can tell.
TEST_F(ForeignFiles, DamagedProgressIsNamed) {
  make_run();
  const std::string checkpoint = at("run/checkpoints/step-8"),
                    path = checkpoint + "/rank-0.progress";
  const std::string good = text_of(path);
  const std::vector<std::function<void(Json&)>> damages{[](Json& json) {
                                                          json["spent"] = {1, 2};
                                                        },
                                                        [](Json& json) { json["taken"] = "x"; },
                                                        [](Json& json) {
                                                          json["curve"] = {1, 2};
                                                        },
                                                        [](Json& json) {
                                                          json["waited"] = {{1, 2}, {3, 4}, {5, 6}};
                                                        },
                                                        [](Json& json) { json["waited"] = {7}; },
                                                        [](Json& json) {
                                                          json["scores"] = {{{"steps", 1}}};
                                                        },
                                                        [](Json& json) { json["luck"] = "x"; },
                                                        [](Json& json) { json = 7; }};
  for (std::size_t i = 0; i <= damages.size(); ++i) {
    SCOPED_TRACE(i);
    std::ofstream(path) << good;
    if (i < damages.size())
      change(path, damages[i]);
    else
      std::ofstream(path) << deep_list();
    const std::string sums = at("sums");
    ASSERT_EQ(std::system(("sha256sum " + path + " >" + sums).c_str()), 0);
    change(checkpoint + "/manifest.json", [&](Json& manifest) {
      manifest["files"]["rank-0.progress"] = {{"bytes", fs::file_size(path)},
                                              {"sha256", text_of(sums).substr(0, 64)}};
    });
    const Outcome outcome = patiently("train --resume " + at("run"));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("/checkpoints/step-8/rank-0.progress: "),
                                   Not(HasSubstr("json.exception"))));
  }
}

TEST_F(ForeignFiles, AStudyRunsAgainWhatItsDamagedRecordsDontTell) {
  std::ofstream(at("a.toml")) << kStudy;
  const std::string study = "study " + at("a.toml") + " --json --out " + at("out");
  ASSERT_EQ(patiently(study).status, 0);
  const std::string run = fs::directory_iterator(at("out/runs"))->path().string() + "/run.json";
  change(run, [](Json& json) { json["result"]["workers_detail"] = 7; });
  const Outcome report = patiently("report " + at("out"));
  EXPECT_EQ(report.status, 0) << report.err;
  const Outcome again = patiently(study);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json().at(0)["done"], 1);
  EXPECT_TRUE(read(run)["result"]["workers_detail"].is_array());
  change(at("out/study.json"), [](Json& json) { json["variants"][0]["runs"] = {"nowhere"}; });
  expect_refused(patiently("report " + at("out")), {"", at("out/study.json") + " is damaged"});
}

TEST_F(ForeignFiles, AFolderThatBeginsWithADashIsAFolder) {
  const std::string here = "cd " + folder_.path() + " && " + kPatience;
  const std::string flags = std::string(kSmall) + "-n 2 --checkpoint-every 4 ";
  const Outcome trained = lockstep("train " + flags + "--out=-dash", here);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(fs::exists(at("-dash/model.pt")));
  const Outcome resumed = lockstep("train --epochs 2 --resume=-dash", here);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  std::ofstream(at("a.toml")) << kStudy;
  const Outcome studied = lockstep("study a.toml --out=-study", here);
  EXPECT_EQ(studied.status, 0) << studied.out << studied.err;
}

TEST_F(ForeignFiles, NoPicturesAreFoldersAndFifosWithTheirNames) {
  ASSERT_EQ(lockstep("data make images --to " + at("images") +
                     " --classes 2 --per-class 8 --val-per-class 4 --size 32x32")
                .status,
            0);
  const std::string of_class = fs::directory_iterator(at("images/train"))->path();
  fs::create_directories(of_class + "/folder.jpg");
  make_fifo(of_class + "/fifo.jpg");
  fs::create_symlink("/nowhere", of_class + "/link.jpg");
  fs::create_symlink("loop", at("images/train/loop"));
  const Outcome outcome =
      patiently("train --json --model mlp:width=8,depth=1 --batch 4 --epochs 1 --data " +
                at("images") + ":size=32 --out " + at("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("3 entries that are not files named .jpg"));
}

TEST_F(ForeignFiles, NamesOfAnyBytesFailNothing) {
  const std::string odd = "odd\xfe";
  const Outcome made =
      patiently("data make images --json --classes 2 --per-class 2 --size 8x8 --to " + at(odd));
  EXPECT_EQ(made.status, 0) << made.err;
  ASSERT_EQ(train("-n 1 --transport loopback --out " + at("run\xfe")).status, 0);
  const Outcome report = patiently("report --json " + at("run\xfe"));
  EXPECT_EQ(report.status, 0) << report.err;
  std::ofstream(at("a\xfe.toml")) << kStudy;
  for (const char* flags : {" --json --out ", " --json --dry-run --out "}) {
    const Outcome studied = patiently("study " + at("a\xfe.toml") + flags + at("out\xfe"));
    EXPECT_EQ(studied.status, 0) << studied.err;
  }
}

// What can't be written is not done, whoever prints it.
class FullStdout : public SmallTraining, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { std::ofstream(at("a.toml")) << kStudy; }
};
INSTANTIATE_TEST_SUITE_P(
    Commands, FullStdout,
    ::testing::Values("list strategies", "list strategies --json", "--help", "--version",
                      "completion bash", std::string("train --json -n 2 ") + kSmall + "--out @/run",
                      std::string("train --json -n 1 --transport loopback ") + kSmall +
                          "--out @/run",
                      std::string("train -n 2 ") + kSmall + "--out @/run",
                      std::string("train --dry-run ") + kSmall + "--out @/run",
                      "study @/a.toml --json --out @/out", "study @/a.toml --out @/out",
                      "study @/a.toml --dry-run --out @/out",
                      "bench allreduce --json --transport simulated -b 8 -e 8",
                      "bench allreduce --transport simulated -b 8 -e 8",
                      "data make images --json --classes 1 --per-class 1 --size 8x8 --to @/images"),
    [](const auto& info) { return "Command" + std::to_string(info.index); });

TEST_P(FullStdout, IsAFailure) {
  std::string arguments = GetParam();
  for (auto at = arguments.find('@'); at != arguments.npos; at = arguments.find('@'))
    arguments.replace(at, 1, folder_.path());
  const Outcome outcome = patiently(arguments + " >/dev/full");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: can't write to stdout"));
  if (arguments.starts_with("train --json")) {
    EXPECT_THAT(outcome.err, HasSubstr("what came of it is in " + at("run/run.json")));
    EXPECT_EQ(read(at("run/run.json"))["status"], "done");
  }
  if (arguments.starts_with("study") && arguments.find("--dry-run") == arguments.npos) {
    EXPECT_THAT(outcome.err, HasSubstr("what came of it is in " + at("out/results.csv")));
  }
}

}  // namespace
}  // namespace lockstep
