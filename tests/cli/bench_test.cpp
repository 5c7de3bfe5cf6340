// The built program, from the command line to the exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/mistake.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class BenchMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(BenchMistake, IsOneSentenceAndStatus2) {
  expect_refused(lockstep(GetParam().arguments), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, BenchMistake,
    ::testing::Values(
        Mistake{"bench allreduce -n 0", "-n must be a whole number from 1 to"},
        Mistake{"bench allreduce -n -4", "not '-4'"},
        Mistake{"bench allreduce -np 2.5", "not '2.5'"},
        Mistake{"bench p2p -n 1", "-n must be a whole number from 2 to"},
        Mistake{"bench allreduce -b 4X", "-b: '4X' is not a size"},
        Mistake{"bench allreduce -b 0", "-b must be at least one element"},
        Mistake{"bench allreduce -b 2M -e 1M", "-b must not be larger than -e"},
        Mistake{"bench allreduce -f 1", "-f must be a whole number from 2"},
        Mistake{"bench allreduce -i 0", "-i must be a whole number from 1"},
        Mistake{"bench allreduce -w -1", "-w must be a whole number from 0"},
        Mistake{"bench allreduce --repeats 0", "--repeats must be a whole number from 1"},
        Mistake{"bench allreduce --type fp33", "did you mean 'fp32'"},
        Mistake{"bench allreduce --collectives rign", "did you mean 'ring'"},
        Mistake{"bench allreduce --against glo", "did you mean 'gloo'"},
        Mistake{"bench allreduce --transport shmm", "did you mean 'shm'"},
        Mistake{"bench allreduce --cluster sims", "did you mean 'sim'"},
        Mistake{"bench allreduce --cluster sim:bandwith=1Gbps", "did you mean 'bandwidth'"},
        Mistake{"bench allreduce --cluster sim:topology=ring", "unknown topology 'ring'"},
        Mistake{"bench allreduce --cluster sim:hosts=2 -n 3", "can't both be"},
        Mistake{"bench allreduce --cluster sim --transport shm",
                "does not work over --cluster sim"},
        Mistake{"bench allreduce --cluster sim --against gloo", "measures real time"},
        Mistake{"bench allreduce --cluster netns:hosts=2 --against openmpi", "use --against gloo"},
        Mistake{"bench allreduce --type bf16 -n 40 --transport loopback", "up to 32 ranks"},
        Mistake{"bench allreduce --type fp16 --against gloo", "gloo have no fp16"},
        Mistake{"bench pushpull --servers 0", "--servers must be a whole number from 1"},
        Mistake{"bench pushpull --strategies asq", "did you mean 'asp'"},
        Mistake{"bench pushpull --type fp64", "servers hold fp32"},
        Mistake{"bench pushpull --against gloo", "no engine with servers"},
        Mistake{"bench pushpull --cluster sim:hosts=2 --servers 2", "2 ranks are too few"},
        Mistake{"bench pushpull -i 1000000 -n 4", "use a smaller -i"},
        Mistake{"bench allreduce --frobnicate", "--frobnicate"}, Mistake{"bench", "what to do?"},
        Mistake{"bench allreduce --colectives ring", "did you mean '--collectives'"},
        Mistake{"bench alreduce", "did you mean 'allreduce'"},
        Mistake{"trian", "unknown command 'trian': did you mean 'train'"},
        Mistake{"--verison", "unknown flag '--verison': did you mean '--version'"},
        Mistake{"list colectives", "did you mean 'collectives'"},
        Mistake{"list models more", "'more' is one word too many for list"}));

const char* const kFields[] = {"op",
                               "engine",
                               "collective",
                               "transport",
                               "ranks",
                               "bytes",
                               "time_us",
                               "p99_us",
                               "algbw_GBps",
                               "busbw_GBps",
                               "bytes_sent_total",
                               "bytes_sent_busiest",
                               "wrong",
                               "repeats",
                               "chosen"};

TEST(BenchAllReduce, PrintsJsonOnlyAndRightResults) {
  const Outcome outcome = lockstep(
      "bench allreduce -np 3 -b 64 -e 4K -f 8 -w 1 -i 3 --repeats 2 --transport loopback "
      "--collectives ring,auto --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto lines = outcome.json();
  ASSERT_EQ(lines.size(), 6u);  // 64, 512, 4096
  for (const auto& line : lines) {
    for (const char* field : kFields) EXPECT_TRUE(line.contains(field)) << field;
    EXPECT_EQ(line["wrong"], 0);
    EXPECT_EQ(line["engine"], "lockstep");
    EXPECT_GT(line["time_us"], 0);
  }
  EXPECT_EQ(lines[0]["collective"], "ring");
  // 16 elements in chunks of 6, 5, 5: the ring moves 2(m-1)N in all.
  EXPECT_EQ(lines[0]["bytes_sent_total"], 2 * 2 * 64);
  EXPECT_EQ(lines[1]["collective"], "auto");
  EXPECT_EQ(lines[1]["chosen"], "shared");
}

TEST(BenchAllReduce, SimulatedTimeIsVirtualAndRepeats) {
  const std::string arguments =
      "bench allreduce -n 4 -b 1M -e 1M --cluster sim:bandwidth=10Gbps,latency=50us "
      "--collectives ring --json";
  const auto first = lockstep(arguments).json(), again = lockstep(arguments).json();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0]["transport"], "simulated");
  EXPECT_EQ(first[0]["wrong"], 0);
  // 2(m-1) steps of latency and a chunk on the line.
  const double expected_us = 6 * (50 + (1 << 20) / 4 / 1250.0);
  EXPECT_NEAR(first[0]["time_us"].get<double>(), expected_us, expected_us * 0.02);
}

TEST(BenchAllReduce, ValuesTooLargeToHoldAreHollowAndUnverified) {
  const Outcome outcome =
      lockstep("bench allreduce -n 4 -b 1G -e 1G --transport simulated --json --collectives ring");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.json().at(0)["wrong"].is_null());
}

TEST(BenchP2p, MeasuresLatencyAndStream) {
  const Outcome outcome =
      lockstep("bench p2p -b 4K -e 64K -f 16 -w 1 -i 3 --repeats 1 --transport loopback --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto lines = outcome.json();
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["op"], "p2p");
    EXPECT_EQ(line["wrong"], 0);
    EXPECT_GT(line["busbw_GBps"], 0);
  }
}

class BenchPushPull : public ::testing::TestWithParam<std::string> {};

// Every worker pushes all its bytes and pulls as many, however many servers there are.
TEST_P(BenchPushPull, EveryResultIsRightAndHasItsBytes) {
  const Outcome outcome =
      lockstep("bench pushpull -n 2 --servers 3 -b 4K -e 3M -f 1000 -w 1 -i 3 --repeats 2 --json " +
               GetParam());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto lines = outcome.json();
  ASSERT_EQ(lines.size(), 4u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["op"], "pushpull");
    EXPECT_EQ(line["workers"], 2);
    EXPECT_EQ(line["servers"], 3);
    EXPECT_EQ(line["wrong"], 0);
    EXPECT_GT(line["time_us"], 0);
    EXPECT_EQ(line["bytes_sent_total"].get<double>(), 4 * line["bytes"].get<double>());
    EXPECT_EQ(line["memcpy_ratio"].is_null(), line["transport"] == "simulated");
  }
  EXPECT_EQ(lines[0]["strategy"], "parameter-server");
  EXPECT_EQ(lines[1]["strategy"], "asp");
}

INSTANTIATE_TEST_SUITE_P(Over, BenchPushPull,
                         ::testing::Values("--transport loopback", "--transport shm",
                                           "--transport ucx", "--cluster sim"),
                         [](const auto& info) {
                           return info.param.substr(info.param.rfind(' ') + 1);
                         });

TEST(BenchPushPullAlone, SimulatedTimeIsThatOfTheLine) {
  const Outcome outcome = lockstep(
      "bench pushpull -n 1 --servers 1 -b 100M -e 100M --strategies asp --json --cluster "
      "sim:bandwidth=10Gbps,latency=50us");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const double line_us = 2 * (100 << 20) / 1250.0;
  EXPECT_NEAR(outcome.json().at(0)["time_us"].get<double>(), line_us, 0.01 * line_us);
}

TEST(BenchAllReduce, TableHasTheColumnsOfNcclTests) {
  const Outcome outcome =
      lockstep("bench allreduce -b 4K -e 4K -w 0 -i 1 --repeats 1 --transport loopback");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("# "));
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("size +count +type +redop +time +algbw +busbw +#wrong"));
}

TEST(Bench, HelpHasExamples) {
  for (const char* command : {"--help", "bench allreduce --help", "bench p2p --help",
                              "bench pushpull --help", "list --help"}) {
    const Outcome outcome = lockstep(command);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
    EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("bench-worker")));
  }
}

TEST(List, NamesEveryCollective) {
  const Outcome outcome = lockstep("list collectives --json");
  ASSERT_EQ(outcome.status, 0);
  std::vector<std::string> names;
  for (const auto& line : outcome.json()) names.push_back(line["name"]);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"ring", "shared", "auto", "double-tree"}));
}

}  // namespace
}  // namespace lockstep
