#include "cluster/netns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "cluster/program.h"
#include "cluster/sockets.h"
#include "core/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::ThrowsMessage;

ino_t network_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// Is any process of this machine in this network namespace?
bool in_use(ino_t network) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    if (isdigit(entry.path().filename().string()[0]) &&
        network_of(entry.path() / "ns/net") == network)
      return true;
  return false;
}

class Netns : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  }
};

// Sends from host 0 to host 1 for a while; returns the bits per second that arrived.
double measure(const NetnsHosts& hosts, double seconds) {
  std::unique_ptr<RawListener> listener;
  {
    const InNamespace inside(hosts.host_fd(1));
    listener = std::make_unique<RawListener>(NetnsHosts::address_of(1));
  }
  const double started = wall_now();  // before the first byte is sent
  std::thread sender([&] {
    const InNamespace inside(hosts.host_fd(0));
    RawConnection connection(listener->address());
    ASSERT_TRUE(connection.connected());
    const std::string block(1 << 20, 'x');
    const double until = wall_now() + seconds;
    while (wall_now() < until) connection.say(block);
  });
  listener->accept_one();
  double bytes = 0;
  char buffer[1 << 16];
  for (ssize_t n; (n = recv(listener->peer(), buffer, sizeof buffer, 0)) > 0;)
    bytes += static_cast<double>(n);
  sender.join();
  return bytes * 8 / (wall_now() - started);
}

TEST_F(Netns, HostsReachEachOtherAndNobodyElse) {
  const ino_t outside = network_of("/proc/thread-self/ns/net");
  NetnsHosts hosts({3, 1, 0});
  EXPECT_EQ(network_of("/proc/thread-self/ns/net"), outside);
  EXPECT_GT(measure(hosts, 0.2), 0);
  RawListener here;  // outside
  const InNamespace inside(hosts.host_fd(2));
  EXPECT_FALSE(RawConnection(here.address()).connected());
}

// What a command prints in a network namespace.
std::string output_in(int network, const std::string& command) {
  const InNamespace inside(network);
  const std::unique_ptr<FILE, decltype(&pclose)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe.get()));
  return text;
}

// That it reaches its rate is for benchmarks: here other programs may have the processor.
TEST_F(Netns, ALinkHasTheRateAskedForAndNotMore) {
  NetnsHosts hosts({2, 1, 1e9});
  for (const int host : {0, 1})
    EXPECT_THAT(output_in(hosts.host_fd(host), "tc qdisc show"), ContainsRegex("tbf .*rate 1Gbit"));
  EXPECT_LT(measure(hosts, 1), 1.02e9);
}

TEST_F(Netns, RanksOnTwoHostsTalk) {
  Program program({WORKER_FOR_TESTS, "launch-netns", "2", "good"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("[1] rank 1 of 2 is ready, host 1"));
}

TEST_F(Netns, RanksOnSharedAndOtherHostsTalk) {
  Program program({WORKER_FOR_TESTS, "launch-netns-pairs", "5", "good"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), AllOf(HasSubstr("[1] rank 1 of 5 is ready, host 0"),
                                   HasSubstr("[2] rank 2 of 5 is ready, host 1"),
                                   HasSubstr("[4] rank 4 of 5 is ready, host 2")));
}

TEST_F(Netns, AKilledRankIsNamedByTheOthers) {
  for (const char* how : {"launch-netns", "launch-netns-pairs"}) {
    Program program({WORKER_FOR_TESTS, how, "4", "forever"});
    ASSERT_TRUE(program.says("is ready", 4)) << program.err();
    kill(program.pids().at(2), SIGKILL);
    EXPECT_EQ(program.wait(), 128 + 9);
    EXPECT_THAT(program.err(),
                ContainsRegex("lockstep: rank 2 \\(pid [0-9]+ on host 10.77.0.[0-9]\\) died of "
                              "signal 9"));
    for (int survivor : {0, 1, 3})
      EXPECT_THAT(program.err(), ContainsRegex(fmt::format("\\[{}\\] .*rank 2", survivor)));
  }
}

TEST_F(Netns, NothingIsLeftAfterTheLauncherIsKilled) {
  Program program({WORKER_FOR_TESTS, "launch-netns", "2", "hang"});
  ASSERT_TRUE(program.says("is ready", 2)) << program.err();
  std::vector<ino_t> networks;
  for (int pid : program.pids())
    networks.push_back(network_of(fmt::format("/proc/{}/ns/net", pid)));
  ASSERT_EQ(networks.size(), 2u);
  EXPECT_NE(networks[0], networks[1]);
  EXPECT_TRUE(in_use(networks[0]));
  program.send(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + 9);
  for (ino_t network : networks) EXPECT_TRUE(eventually([&] { return !in_use(network); }));
  EXPECT_FALSE(std::filesystem::exists("/run/netns/host0"));
}

TEST_F(Netns, RefusesWhatCannotBe) {
  EXPECT_THAT(
      [] {
        NetnsHosts({0, 1, 0});
      },
      ThrowsMessage<UsageError>(HasSubstr("1 to 250 hosts")));
  Program crowded({WORKER_FOR_TESTS, "launch-netns-crowded", "3", "good"});
  EXPECT_EQ(crowded.wait(), 1);
  EXPECT_THAT(crowded.err(), HasSubstr("3 workers don't fit on 1 hosts with 1 ranks each"));
}

TEST_F(Netns, NotRootIsOneSentence) {
  Program program({"setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all",
                   "--bounding-set=-all", WORKER_FOR_TESTS, "launch-netns", "2", "good"});
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.err(),
              HasSubstr("hosts in network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"));
}

}  // namespace
}  // namespace lockstep
