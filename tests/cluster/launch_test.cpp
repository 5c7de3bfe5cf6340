#include "cluster/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <thread>

#include "cluster/host.h"
#include "cluster/program.h"
#include "core/error.h"
#include "folder.h"
#include "transport/lanes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Program launcher(int workers, const std::string& act) {
  return Program({WORKER_FOR_TESTS, "launch", std::to_string(workers), act});
}

void expect_none_run(const std::vector<int>& pids) {
  EXPECT_FALSE(pids.empty());
  for (int pid : pids)
    EXPECT_TRUE(eventually([&] { return !runs(pid); })) << "pid " << pid << " still runs";
}

TEST(Launch, AllGoWell) {
  Program program = launcher(3, "good");
  EXPECT_EQ(program.wait(), 0) << program.err();
  for (const char* line :
       {"[0] rank 0 of 3 is ready, host 0\n", "[1] rank 1 of 3", "[2] rank 2 of 3"})
    EXPECT_THAT(program.out(), HasSubstr(line));
  EXPECT_THAT(program.err(), ContainsRegex("3 ranks, [0-9]+ threads? each"));
  EXPECT_THAT(program.err(), Not(ContainsRegex("rank [0-9]")));
  expect_none_run(program.pids());
}

TEST(Launch, OneRankAlone) {
  Program program = launcher(1, "good");
  EXPECT_EQ(program.wait(), 0) << program.err();
}

TEST(Launch, AKilledRankIsNamedWithItsSignal) {
  Program program = launcher(3, "kill9");
  EXPECT_EQ(program.wait(), 128 + 9);
  EXPECT_THAT(
      program.err(),
      ContainsRegex("rank 1 \\(pid [0-9]+ on host .+\\) died of signal 9 \\(SIGKILL\\); the "
                    "others ended too"));
  // Each survivor said who was dead.
  EXPECT_THAT(program.err(),
              AllOf(ContainsRegex("\\[0\\] .*rank 1"), ContainsRegex("\\[2\\] .*rank 1")));
  expect_none_run(program.pids());
}

TEST(Launch, AStalledRankIsNamedAndEnded) {
  Program program = launcher(3, "stopped");
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(),
              ContainsRegex("rank 1 \\(pid [0-9]+ on host .+\\) failed: it was silent for 10 s"));
  expect_none_run(program.pids());
}

TEST(Launch, WhoCanGoWithoutAStalledRankDoes) {
  Program program = launcher(3, "lose-stopped");
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(),
              ContainsRegex("rank 1 \\(pid [0-9]+ on host .+\\) is lost: it was silent for 10 s"));
  expect_none_run(program.pids());
}

TEST(Launch, AnExitStatusIsNamedAndPassedOn) {
  Program program = launcher(2, "exit3");
  EXPECT_EQ(program.wait(), 3);
  EXPECT_THAT(program.err(),
              ContainsRegex("rank 1 \\(pid [0-9]+ on host .+\\) ended with exit status 3;"));
}

TEST(Launch, EndingWithoutLeavingIsAFailureToo) {
  Program program = launcher(2, "exit0");
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.err(), ContainsRegex("rank 1 .* ended with exit status 0"));
}

TEST(Launch, WhoThrowsIsNamedNotWhoFollows) {
  Program program = launcher(4, "throw");
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.err(), ContainsRegex("lockstep: rank 1 .*this rank was told to throw"));
}

TEST(Launch, ADeathBeforeJoiningEndsTheOthersWhoSayIt) {
  Program program = launcher(3, "early");
  EXPECT_EQ(program.wait(), 5);
  EXPECT_THAT(program.err(), ContainsRegex("rank 1 .*ended with exit status 5"));
  for (const int r : {0, 2})
    EXPECT_THAT(program.err(),
                ContainsRegex(fmt::format("\\[{}\\] rank 1 died before all ranks were ready", r)));
}

TEST(Launch, AFailureAfterALossIsOneMoreLoss) {
  Program program = launcher(4, "lose-two");
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), ContainsRegex("rank 1 .*is lost: it died of signal 9"));
  EXPECT_THAT(program.err(), ContainsRegex("rank 2 .*is lost: rank 2 has had enough"));
  EXPECT_THAT(program.out(), HasSubstr("[2] rank 2 ends by itself"));
}

TEST(Launch, AFailureThatStopsAllStopsThoseThatCouldGoOn) {
  Program program = launcher(4, "lose-all");
  EXPECT_EQ(program.wait(), 128 + 9);
  EXPECT_THAT(program.err(), ContainsRegex("lockstep: rank 2 .*failed: rank 2 has had enough; the "
                                           "others were stopped"));
  expect_none_run(program.pids());
}

TEST(Launch, InterruptEndsAll) {
  for (int signal : {SIGINT, SIGTERM}) {
    Program program = launcher(2, "hang");
    ASSERT_TRUE(program.says("is ready", 2));
    program.send(signal);
    EXPECT_EQ(program.wait(), 128 + signal);
    EXPECT_THAT(program.err(), HasSubstr("told to stop by SIG"));
    expect_none_run(program.pids());
  }
}

TEST(Launch, ASecondInterruptKillsAtOnce) {
  Program program = launcher(2, "stubborn");
  ASSERT_TRUE(program.says("is ready", 2));
  program.send(SIGINT);
  program.send(SIGINT);
  EXPECT_EQ(program.wait(10), 130);
  expect_none_run(program.pids());
}

// The launcher alone is in the terminal's foreground.
TEST(Launch, CtrlZStopsAllUntilTheyMayGoOn) {
  for (const char* how : {"launch", "launch-ucx"}) {
    Program program({WORKER_FOR_TESTS, how, "2", "forever"});
    ASSERT_TRUE(program.says("went round", 2)) << program.err();
    std::vector<int> all = program.pids();
    all.push_back(program.pid());
    program.send(SIGTSTP);
    for (const int pid : all) EXPECT_TRUE(eventually([&] { return state_of(pid) == 'T'; })) << how;
    program.send(SIGCONT);
    EXPECT_TRUE(program.says("went round", 4 + program.count("went round"))) << program.err();
    program.send(SIGTERM);
    EXPECT_EQ(program.wait(), 128 + SIGTERM);
    EXPECT_THAT(program.err(), Not(HasSubstr("died")));
    expect_none_run(all);
  }
}

TEST(Launch, WhoIsToldToStopWhileAllAreStoppedEndsWhenItMayGoOn) {
  Program program = launcher(2, "forever");
  ASSERT_TRUE(program.says("went round", 2)) << program.err();
  program.send(SIGTSTP);
  ASSERT_TRUE(eventually([&] { return state_of(program.pid()) == 'T'; }));
  program.send(SIGTERM);
  program.send(SIGCONT);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  expect_none_run(program.pids());
}

TEST(Launch, AWorkerThatSomebodyTerminatedFailed) {
  Program program = launcher(2, "forever");
  ASSERT_TRUE(program.says("went round", 2)) << program.err();
  kill(program.pids().at(1), SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  EXPECT_THAT(program.err(), AllOf(ContainsRegex("rank 1 .*died of signal 15 \\(SIGTERM\\)"),
                                   Not(HasSubstr("told to stop"))));
}

TEST(Launch, SurvivorsThatHangAreStopped) {
  Program program = launcher(3, "stubborn");
  ASSERT_TRUE(program.says("is ready", 3));
  kill(program.pids().at(2), SIGKILL);
  EXPECT_EQ(program.wait(), 128 + 9);
  EXPECT_THAT(program.err(),
              ContainsRegex("rank 2 .*died of signal 9 \\(SIGKILL\\); the others were stopped"));
  expect_none_run(program.pids());
}

TEST(Launch, NobodyOutlivesAKilledLauncher) {
  for (const char* act : {"hang", "forever"}) {
    Program program = launcher(3, act);
    ASSERT_TRUE(program.says("is ready", 3));
    program.send(SIGKILL);
    EXPECT_EQ(program.wait(), 128 + 9);
    expect_none_run(program.pids());
  }
}

TEST(Launch, RanksOfOneHostTalkOverUcxWhenAsked) {
  Program program({WORKER_FOR_TESTS, "launch-ucx", "3", "kill9"});
  EXPECT_EQ(program.wait(), 128 + 9);
  EXPECT_THAT(program.out(), HasSubstr("[2] rank 2 of 3 is ready, host 0"));
  EXPECT_THAT(program.err(),
              AllOf(ContainsRegex("\\[0\\] .*rank 1"), ContainsRegex("\\[2\\] .*rank 1")));
}

TEST(Launch, OtherProgramsRunTooAndTheWorstStatusCounts) {
  LaunchOptions options;
  options.workers = 3;
  options.command = {"sh", "-c", "exit $((RANK * 2))"};
  Launch launch(options);
  EXPECT_EQ(launch.wait(), 4);
  EXPECT_THAT(launch.verdict(), HasSubstr("ended with exit status"));
}

TEST(Launch, LinesStayWhole) {
  Program program({WORKER_FOR_TESTS, "launch-sh", "2", "printf 'a\\nb'; printf c >&2"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), AllOf(HasSubstr("[0] a\n"), HasSubstr("[1] a\n")));
  EXPECT_THAT(program.out(), AllOf(HasSubstr("[0] b\n"), HasSubstr("[1] b\n")));
  EXPECT_THAT(program.err(), AllOf(HasSubstr("[0] c\n"), HasSubstr("[1] c\n")));
}

TEST(Launch, WhatWorkersLeaveBehindIsKilled) {
  Program program({WORKER_FOR_TESTS, "launch-sh", "1", "sleep 1000 & echo stray $!"});
  EXPECT_EQ(program.wait(), 0);
  const auto at = program.out().find("stray ");
  ASSERT_NE(at, std::string::npos);
  expect_none_run({std::stoi(program.out().substr(at + 6))});  // a signal takes its moment
}

TEST(Launch, TheEnvironmentIsPassedOn) {
  Program program({WORKER_FOR_TESTS, "launch-sh", "2",
                   "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $OMP_NUM_THREADS $MINE"},
                  {{"OMP_NUM_THREADS", "7"}, {"MINE", "kept"}, {"RANK", "99"}});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(),
              AllOf(HasSubstr("[0] 0 2 0 2 7 kept\n"), HasSubstr("[1] 1 2 1 2 7 kept\n")));
  EXPECT_THAT(program.err(), HasSubstr("as OMP_NUM_THREADS says"));
}

TEST(Launch, WorkersInheritNoSocket) {
  Program program({WORKER_FOR_TESTS, "launch-sh", "2", "ls -l /proc/$$/fd"});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), AllOf(HasSubstr("[1] "), Not(HasSubstr("socket:"))));
}

// Over UCX too, where one who never heard from it sees only a closed connection.
TEST(Launch, WhoLeavesBeforeOthersTurnToItHasLeftAndNotDied) {
  for (const char* how : {"launch", "launch-ucx"}) {
    Program program({WORKER_FOR_TESTS, how, "3", "lose-one-that-left"});
    EXPECT_EQ(program.wait(), 0) << program.err();
    EXPECT_THAT(program.out(), AllOf(HasSubstr("[0] rank 1 left"), HasSubstr("[2] rank 1 left")));
    EXPECT_THAT(program.err(), Not(HasSubstr("is lost"))) << how;
  }
}

// Who reaches a port but has no key holds it in vain: 200 connections at a time, to the coordinator
// of a launcher that may open 128 descriptors, and to the ports of its ranks.
TEST(Launch, StrangersThatTakeAllConnectionsEndNobody) {
  const std::string command =
      fmt::format("ulimit -n 128; exec {} launch-ucx 2 forever", WORKER_FOR_TESTS);
  Program program({"sh", "-c", command});
  ASSERT_TRUE(program.says("is ready", 2)) << program.err();
  std::vector<Address> ports = {parse_address(program.word_after("coordinator at "), "")};
  for (const int pid : program.pids())
    for (const int port : listening_ports(pid)) ports.push_back({"127.0.0.1", port});
  EXPECT_GE(ports.size(), 1 + 2 * Lanes{}.count()) << "two ranks, each with all lanes";
  std::deque<RawConnection> strangers;
  for (int i = 0; i < 1000; ++i) {
    strangers.emplace_back(ports[i % 2 == 0 ? 0 : i / 2 % ports.size()], RawConnection::no_wait)
        .say(i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : "");
    if (strangers.size() > 200) strangers.pop_front();
  }
  // The coordinator has looked at them all: the newest is the last that it lets go.
  RawConnection last(ports[0]);
  EXPECT_TRUE(last.closed_within(60));
  ASSERT_TRUE(program.says("went round", 4 + program.count("went round"))) << program.err();
  for (const int pid : program.pids()) EXPECT_TRUE(runs(pid));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM) << program.err();
  EXPECT_THAT(program.err(), AllOf(HasSubstr("told to stop by SIGTERM"), Not(HasSubstr("died"))));
}

// They hold what connections they get from before any rank has come.
TEST(Launch, StrangersThatComeFirstKeepNoRankOut) {
  const testing::Folder folder;
  const std::string gate = folder.text() + "/gate";
  const std::string script =
      fmt::format("until [ -e {} ]; do sleep 0.02; done; exec {} good", gate, WORKER_FOR_TESTS);
  Program program(
      {"sh", "-c",
       fmt::format("ulimit -n 80; exec {} launch-sh 3 '{}'", WORKER_FOR_TESTS, script)});
  ASSERT_TRUE(program.says("pid ", 3)) << program.err();
  const Address address = parse_address(program.word_after("coordinator at "), "");
  std::atomic<bool> done{false};
  std::atomic<int> knocks{0};
  std::thread hammering([&] {
    std::deque<RawConnection> strangers;
    for (; !done; ++knocks) {
      strangers.emplace_back(address, RawConnection::no_wait);
      if (strangers.size() > 800) strangers.pop_front();
    }
  });
  EXPECT_TRUE(eventually([&] { return knocks > 1000; }));
  std::ofstream(gate) << "open";
  EXPECT_EQ(program.wait(), 0) << program.err();
  done = true;
  hammering.join();
}

TEST(Launch, TooFewDescriptorsAreRefusedAtOnce) {
  Program program(
      {"sh", "-c", fmt::format("ulimit -n 64; exec {} launch 20 good", WORKER_FOR_TESTS)});
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.err(), ContainsRegex("20 ranks needs [0-9]+ descriptors, and this process "
                                           "may open 64 at most: .*ulimit -n"));
  EXPECT_THAT(program.out(), Not(HasSubstr("pid")));
}

TEST(Launch, ASoftLimitOfDescriptorsIsRaised) {
  Program program(
      {"sh", "-c", fmt::format("ulimit -S -n 32; exec {} launch 3 good", WORKER_FOR_TESTS)});
  EXPECT_EQ(program.wait(), 0) << program.err();
}

// UCX aborts on 72 bytes that begin with its magic number, and keeps a descriptor for whoever
// connects: all depends on who may.
TEST(Launch, NobodyConnectsWithARankThatHasMetAllOthers) {
  Program program({WORKER_FOR_TESTS, "launch-ucx", "3", "hang"});
  ASSERT_TRUE(program.says("is ready", 3)) << program.err();
  for (const int pid : program.pids()) {
    const std::vector<int> ports = listening_ports(pid);
    EXPECT_EQ(ports.size(), Lanes{}.count()) << "one a lane";
    for (const int port : ports)
      for (const char* source : {"127.0.0.1", "127.0.0.2"}) EXPECT_FALSE(lets_in(source, port));
  }
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
}

TEST(Launch, StopsWhenTold) {
  LaunchOptions options;
  options.command = {"sleep", "1000"};
  Launch launch(options);
  launch.stop();
  EXPECT_EQ(launch.wait(), 128 + SIGTERM);
}

TEST(Launch, RefusesWhatCannotBe) {
  LaunchOptions none;
  none.workers = 0;
  EXPECT_THAT([&] { Launch{none}; }, ThrowsMessage<UsageError>(HasSubstr("at least 1")));
  LaunchOptions unknown;
  unknown.command = {"/nowhere/program"};
  EXPECT_THAT([&] { Launch{unknown}; },
              ThrowsMessage<UsageError>(HasSubstr("cannot start /nowhere/program: No such file")));
  LaunchOptions elsewhere;
  elsewhere.listen = "203.0.113.1:1";
  EXPECT_THAT([&] { Launch{elsewhere}; },
              ThrowsMessage<UsageError>(HasSubstr("cannot listen on 203.0.113.1:1")));
}

}  // namespace
}  // namespace lockstep
