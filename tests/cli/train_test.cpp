// `lockstep train` from the command line to the run's folder, on real processes and simulated ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/mistake.h"
#include "cli/small_training.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(TrainMistake, IsOneSentenceStatus2AndNothingWritten) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string out = folder.path() + "/run";
  const Outcome outcome =
      lockstep(std::string("train ") + kSmall + GetParam().arguments + " --out " + out);
  expect_refused(outcome, GetParam());
  EXPECT_FALSE(fs::exists(out));
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, TrainMistake,
    ::testing::Values(
        Mistake{"--workers 0", "--workers must be from 1"},
        Mistake{"--workers two", "--workers: 'two' is not a number such as 2"},
        Mistake{"--stratgy asp", "unknown flag of train '--stratgy': did you mean '--strategy'"},
        Mistake{"--stratgy=asp", "did you mean '--strategy'"},
        Mistake{"one.toml two.toml", "'two.toml'"},
        Mistake{"--strategy step-wize", "did you mean 'step-wise'"},
        Mistake{"--strategy local-sgd:perod=3", "did you mean 'period'"},
        Mistake{"--strategy parameter-server --servers 0", "needs at least 1"},
        Mistake{"--strategy parameter-server --servers 3 --server-placement colocated",
                "only 2 workers"},
        Mistake{"--servers 2", "has no servers"}, Mistake{"--model mlpp", "did you mean 'mlp'"},
        Mistake{"--model /dev/null/x.pt", "/dev/null/x.pt"},
        Mistake{"--model /etc/hostname", "TorchScript"},
        Mistake{"--data mnits", "did you mean 'mnist'"}, Mistake{"--data /nowhere", "/nowhere"},
        Mistake{"--split class -n 11", "11"}, Mistake{"--balanced-batches --batch 15", "multiple"},
        Mistake{"--optimizer sdg", "did you mean 'sgd'"},
        Mistake{"--lr-schedule cosin", "did you mean 'cosine'"},
        Mistake{"--resume /nowhere", "no checkpoint in /nowhere"},
        Mistake{"--cluster sim:numerics=off", "step=100ms"},
        Mistake{"--transport tcp", "unknown transport 'tcp'"},
        Mistake{"--epochs 4294967296", "--epochs must be at most 2147483647"},
        Mistake{"--samples 4294967296", "--samples must be at most 2147483647"},
        Mistake{"--seconds -1", "--seconds must be a time of training above 0, not -1"},
        Mistake{"--steps 5 --seconds 3",
                "give one of --epochs, --steps, --samples and --seconds, not several"},
        Mistake{"--seconds 3 --lr-schedule cosine", "which --seconds leaves open"},
        Mistake{"--samples 300 --strategy epoch-average",
                "--samples does not work with epoch-average: it trains whole epochs"},
        Mistake{"--profile-out /nowhere/p.json", "must be a file in a folder that exists"},
        Mistake{"--profile-out /tmp", "must be a file in a folder that exists"},
        Mistake{"--key-file /nowhere", "cannot read key file /nowhere"},
        Mistake{"--listen 203.0.113.1:1", "cannot listen on 203.0.113.1:1"},
        Mistake{"--cluster netns:hosts=2 --iface eth0", "leave it out"},
        Mistake{"--timeline 500", "FIRST-LAST, such as 1-500, or all, or none"},
        Mistake{"--sample-every 0.0001", "from 0.001 to 1000000, or 0 for none"},
        Mistake{"--sample-every 1e10", "from 0.001 to 1000000, or 0 for none"},
        Mistake{"--batch -1", "--batch: must be 0 or more, not -1"},
        Mistake{"--batch 18446744073709551615", "--batch must be 1 to"},
        Mistake{"--global-batch -1", "--global-batch: must be 0 or more, not -1"},
        Mistake{"--keep -1", "--keep: must be 0 or more, not -1"},
        Mistake{"--threads 2000000000", "--threads must be 0 to 1024"},
        Mistake{"/", "is no TOML file; to go on with a run, give its folder to --resume"},
        Mistake{"--join 10.0.0.1:29500", "set RANK and WORLD_SIZE"},
        Mistake{"/nowhere.toml", "/nowhere.toml"}));

TEST(TrainFile, IsNamedWithWhatIsWrongInIt) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string file = folder.path() + "/mine.toml";
  std::ofstream(file) << "strateg = \"asp\"\n";
  expect_refused(lockstep("train " + file),
                 {"a file", file + ": unknown setting 'strateg': did you mean 'strategy'"});
}

TEST(TrainFile, TakesAFlagThatMayBeRepeatedByItsNameAndOnce) {
  const bench::PrivateFolder folder(::testing::TempDir());
  const std::string file = folder.path() + "/mine.toml";
  std::ofstream(file) << "fault = \"kill:rnk=1\"\n";
  expect_refused(lockstep("train " + file), {"a file", "did you mean 'rank'"});
}

class Train : public SmallTraining {};

TEST_F(Train, ProcessesAndSimulationEndWithTheSameBits) {
  std::vector<std::string> sums;
  for (const std::string where :
       {"--transport shm", "--transport ucx", "--transport loopback", "--cluster sim:step=1ms"}) {
    const Outcome outcome =
        train("-n 3 --json --out " + at(std::to_string(sums.size())) + " " + where);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    sums.push_back(outcome.json().at(0).at("model_sha256"));
  }
  EXPECT_THAT(sums, ::testing::Each(sums[0]));
}

TEST_F(Train, LeavesARunThatCanBeRead) {
  const Outcome outcome = train("-n 2 --json --evaluate-every 5 --out " + at("run"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto run = read(at("run/run.json"));
  EXPECT_EQ(run["status"], "done");
  EXPECT_EQ(run["result"], outcome.json().at(0));
  EXPECT_EQ(run["config"]["workers"], 2);
  EXPECT_EQ(run["facts"]["parameters"], 784 * 16 + 16 + 16 * 10 + 10);
  EXPECT_EQ(run["result"]["data"], "digits");
  EXPECT_EQ(run["result"]["workers_detail"].size(), 2u);
  EXPECT_EQ(run["result"]["oversubscribed"], std::thread::hardware_concurrency() < 2);
  EXPECT_GT(run["result"]["workers_detail"][1]["peak_rss_bytes"], 1000000);
  EXPECT_TRUE(fs::exists(at("run/model.pt")));
  std::ifstream metrics(at("run/metrics.jsonl"));
  std::vector<int> steps;
  for (std::string line; std::getline(metrics, line);)
    steps.push_back(nlohmann::json::parse(line).at("steps"));
  EXPECT_THAT(steps, ::testing::ElementsAre(5, 10));
}

TEST_F(Train, NamesACollectiveOnlyWhereTheStrategyUsesOne) {
  const std::string simulated = "-n 2 --cluster sim:step=1ms --json --out ";
  const Outcome with = train(simulated + at("with") + " --strategy local-sgd");
  EXPECT_EQ(with.json().at(0)["collective"], "ring");
  const Outcome without = train(simulated + at("without") + " --strategy step-wise");
  EXPECT_TRUE(without.json().at(0)["collective"].is_null());
}

TEST_F(Train, SamplesEndWithWhatTheSummarySays) {
  const Outcome outcome =
      train("-n 2 --strategy parameter-server --sample-every 0.02 --json --out " + at("run"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (int r = 0; r < 3; ++r) {
    const auto last = last_sample("run", r);
    const auto rank = outcome.json().at(0)["workers_detail"][r];
    const auto exchange = last["network"]["exchange"];
    EXPECT_EQ(last["step"], 10);
    EXPECT_GT(exchange["bytes_sent"], 0);
    EXPECT_EQ(exchange["bytes_sent"], rank["bytes_sent"]);
    EXPECT_EQ(exchange["bytes_received"], rank["bytes_received"]);
    EXPECT_EQ(exchange["messages_sent"], rank["messages_sent"]);
    EXPECT_EQ(last["network"]["other"]["bytes_sent"], rank["bytes_other"]);
    EXPECT_GE(rank["peak_private_bytes"], last["private_bytes"]);
    EXPECT_GE(rank["peak_shared_bytes"], last["shared_bytes"]);
  }
  EXPECT_GT(read(at("run/timeline.json"))["traceEvents"].size(), 3 * 10u);
}

TEST_F(Train, ARunIsNotWrittenOver) {
  ASSERT_EQ(train("-n 1 --transport loopback --out " + at("run")).status, 0);
  const Outcome again = train("-n 1 --transport loopback --out " + at("run"));
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("holds a run already"));
}

TEST_F(Train, ResumesAndRefusesAnotherModel) {
  const std::string flags = "-n 2 --json --checkpoint-every 4 --out ";
  const Outcome whole = train(flags + at("run"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  const Outcome resumed =
      lockstep("train --json --resume " + at("run/checkpoints/step-4") + " --out " + at("again"));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().at(0)["model_sha256"], whole.json().at(0)["model_sha256"]);
  const Outcome fewer = lockstep("train --resume " + at("run") + " --steps 7");
  EXPECT_EQ(fewer.status, 2);
  EXPECT_THAT(fewer.err, HasSubstr("can't go on to step 7"));
  EXPECT_EQ(read(at("run/run.json"))["status"], "done") << "what it had is still there";
  const Outcome other = lockstep("train --resume " + at("run") + " --model lenet5");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("can't go on with \"lenet5\""));
}

TEST_F(Train, ARunWithoutAResultFails) {
  // Nothing is wrong with that name but its length, once it is written under a temporary one.
  const Outcome outcome = train("-n 2 --strategy asp --profile-out " + at(std::string(250, 'p')) +
                                " --out " + at("run"));
  EXPECT_EQ(outcome.status, 1);
  const auto run = read(at("run/run.json"));
  EXPECT_EQ(run["status"], "failed");
  EXPECT_THAT(run["reason"].get<std::string>(),
              AllOf(HasSubstr("no rank wrote the run's result: rank 0"), HasSubstr("ppp")));
}

TEST_F(Train, ALossThatIsNoNumberIsToldAllTheSame) {
  const Outcome outcome = train("-n 2 --steps 1 --optimizer sgd:lr=1e30 --out " + at("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("test loss nan"));
}

TEST_F(Train, WorkersTalkOverTheInterfaceThatIsAskedFor) {
  const Outcome outcome = train("-n 2 --transport ucx --iface nowhere0 --out " + at("run"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("nowhere0"));
}

TEST_F(Train, RoundsEndWithTheSameBitsEverywhere) {
  std::vector<std::string> sums;
  for (const std::string where :
       {"shm", "ucx", "loopback --strategy epoch-average:exchange=files",
        "shm --strategy epoch-average:exchange=files", "auto --cluster sim:step=1ms"}) {
    const Outcome outcome = train("-n 3 --json --strategy epoch-average --epochs 2 --out " +
                                  at(std::to_string(sums.size())) + " --transport " + where);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    sums.push_back(outcome.json().at(0).at("model_sha256"));
  }
  EXPECT_THAT(sums, ::testing::Each(sums[0]));
}

TEST_F(Train, AConfigFileIsReadAndFlagsWin) {
  std::ofstream(at("run.toml")) << "workers = 3\nbatch = 10\nlr-scaling = \"linear\"\n";
  const Outcome outcome = lockstep("train " + at("run.toml") + " " + kSmall +
                                   "--transport loopback --json --out " + at("run"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto config = read(at("run/run.json"))["config"];
  EXPECT_EQ(config["workers"], 3);
  EXPECT_EQ(config["batch"], 20);
  EXPECT_EQ(config["lr_scaling"], "linear");
}

TEST_F(Train, TheChosenThreadsAreTold) {
  EXPECT_THAT(train("--steps 1 --cluster sim:step=1ms --out " + at("chosen")).out,
              HasSubstr(" a worker, of "));
  EXPECT_THAT(train("--steps 1 --threads 1 --cluster sim:step=1ms --out " + at("given")).out,
              ::testing::Not(HasSubstr(" a worker, of ")));
}

TEST_F(Train, DryRunSaysWhatWouldRunAndWritesNothing) {
  const Outcome outcome = train("--dry-run --out " + at("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["facts"]["steps"], 10);
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(Train, AProfileOfARunDrivesASimulation) {
  ASSERT_EQ(train("-n 1 --profile-out " + at("profile.json") + " --out " + at("real")).status, 0);
  const double step = read(at("profile.json"))["forward_s"].get<double>();
  EXPECT_GT(step, 0);
  const Outcome outcome =
      train("-n 2 --json --cluster sim:profile=" + at("profile.json") + " --out " + at("sim"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      read(at("sim/run.json"))["facts"]["compute"]["profile_sha256"].get<std::string>().size(),
      64u);
}

TEST_F(Train, ASentenceSaysWhatCompressionPays) {
  const std::string profile = at("profile.json");
  for (const std::string spec : {"fp16", "int8"})
    ASSERT_EQ(
        train("--compress " + spec + " --profile-out " + profile + " --out " + at(spec)).status, 0);
  EXPECT_EQ(read(profile)["coding"].size(), 2u) << "the second run keeps what the first measured";
  const auto sentence = [&](const std::string& bandwidth) {
    return train("--compress fp16 --cluster sim:step=1ms,coding=" + profile +
                 ",bandwidth=" + bandwidth + " --out " + at(bandwidth))
        .out;
  };
  EXPECT_THAT(sentence("1Mbps"),
              ::testing::ContainsRegex("compression cost .* of encoding and .* of decoding on all "
                                       "ranks and saved .* of .*; it stops paying above .* a rank, "
                                       "and this run's links carry 1 Mbit/s, so it paid\n"));
  EXPECT_THAT(sentence("1000000Gbps"), HasSubstr(", so it did not pay\n"));
  const Outcome free = train("--compress fp16 --cluster sim:step=1ms --out " + at("free"));
  EXPECT_THAT(free.out, HasSubstr("take no virtual time"));
  EXPECT_THAT(free.out, HasSubstr("charged no time it always pays\n"));
}

TEST_F(Train, AFileThatIsNoProfileIsNotWrittenOver) {
  std::ofstream(at("notes.txt")) << "mine";
  const Outcome outcome = train("--profile-out " + at("notes.txt") + " --out " + at("run"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("is not a profile"));
}

TEST_F(Train, HostsInNamespacesCountTheSameBytes) {
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  const Outcome real = train("-n 2 --json --cluster netns:hosts=2 --out " + at("netns"));
  ASSERT_EQ(real.status, 0) << real.err;
  const Outcome simulated = train("-n 2 --json --cluster sim:step=1ms --out " + at("sim"));
  const auto bytes = [](const Outcome& o) {
    return o.json().at(0)["workers_detail"][0]["bytes_sent"].get<std::uint64_t>();
  };
  EXPECT_GT(bytes(real), 0u);
  EXPECT_EQ(bytes(real), bytes(simulated));
}

TEST(List, EveryKindHasNamesAndJson) {
  for (const std::string kind : {"strategies", "collectives", "compressors", "models", "datasets",
                                 "splits", "optimizers", "schedules", "pipelines", "clusters"}) {
    const Outcome outcome = lockstep("list " + kind + " --json");
    EXPECT_EQ(outcome.status, 0);
    for (const auto& entry : outcome.json()) EXPECT_FALSE(entry.at("description").empty()) << kind;
  }
  EXPECT_THAT(lockstep("list strategies").out, HasSubstr("step-wise"));
  EXPECT_THAT(lockstep("list compressors").out, HasSubstr("ratio=0.01"));
  EXPECT_THAT(lockstep("list pipelines").out, HasSubstr("zb-h1"));
}

}  // namespace
}  // namespace lockstep
