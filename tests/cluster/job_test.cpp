#include "cluster/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "cluster/coordinator.h"
#include "cluster/host.h"
#include "cluster/job_key.h"
#include "cluster/membership.h"
#include "cluster/program.h"
#include "cluster/wiring.h"
#include "core/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Ranks started as torchrun or mpirun would: by variables alone, with rank 0 serving the
// coordinator.
class UnderAnotherLauncher : public testing::Test {
 protected:
  UnderAnotherLauncher() {
    close(mkstemp(key_file_.data()));  // mode 0600
    std::ofstream(key_file_) << random_key();
    // A port that was free a moment ago.
    port_ = std::to_string(RawListener().address().port);
  }
  ~UnderAnotherLauncher() override { unlink(key_file_.c_str()); }

  std::unique_ptr<Program> start(int rank, int size, const std::string& act) {
    return std::make_unique<Program>(std::vector<std::string>{WORKER_FOR_TESTS, act},
                                     Variables{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                               {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
                                               {"MASTER_PORT", port_},
                                               {"LOCKSTEP_KEY_FILE", key_file_}});
  }

  std::string key_file_ = testing::TempDir() + "lockstep-job-XXXXXX";
  std::string port_;
};

TEST_F(UnderAnotherLauncher, RanksFindEachOther) {
  std::vector<std::unique_ptr<Program>> ranks;
  for (int r : {2, 1, 0}) ranks.push_back(start(r, 3, "good"));  // the coordinator starts last
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->err();
  EXPECT_THAT(ranks[0]->out(), HasSubstr("rank 2 of 3 is ready"));
}

TEST_F(UnderAnotherLauncher, ADeathIsToldToAll) {
  std::vector<std::unique_ptr<Program>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(start(r, 3, "kill9"));
  EXPECT_EQ(ranks[1]->wait(), 128 + 9);
  for (int r : {0, 2}) {
    EXPECT_EQ(ranks[r]->wait(10), 1);
    EXPECT_THAT(ranks[r]->err(), HasSubstr("rank 1"));
  }
}

TEST_F(UnderAnotherLauncher, TheDeathOfRankZeroEndsAll) {
  std::vector<std::unique_ptr<Program>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(start(r, 3, "forever"));
  for (auto& rank : ranks) ASSERT_TRUE(rank->says("is ready"));
  ranks[0]->send(SIGKILL);
  for (int r : {1, 2}) {
    EXPECT_EQ(ranks[r]->wait(10), 1);
    EXPECT_THAT(ranks[r]->err(), HasSubstr("rank 0"));
  }
}

TEST_F(UnderAnotherLauncher, TwoWithOneRank) {
  const auto zero = start(0, 2, "good"), one = start(1, 2, "hang");
  ASSERT_TRUE(one->says("is ready"));
  const auto another = start(1, 2, "good");
  EXPECT_EQ(another->wait(), 1);
  EXPECT_THAT(another->err(),
              ContainsRegex(fmt::format("rank 1 is taken: pid {} on host", one->pid())));
}

TEST(Job, DoesNotStartWithoutItsLauncher) {
  Program gone({"true"});
  ASSERT_EQ(gone.wait(), 0);
  Start start;
  start.launcher_pid = gone.pid();
  EXPECT_THAT([&] { Job{start}; }, ThrowsMessage<TransportError>(HasSubstr("is gone")));
}

TEST(Job, NamesTheRanksThatDidNotCome) {
  const std::string key = random_key();
  const Coordinator coordinator({{"127.0.0.1", 0}, 3, key});
  Start start;
  start.rank = 1;
  start.size = 3;
  start.key = key;
  start.address = coordinator.address().text();
  JobOptions options;
  options.join_seconds = 0.2;
  EXPECT_THAT([&] { Job(start, options); },
              ThrowsMessage<TransportError>(HasSubstr("still missing are: rank 0, rank 2")));
}

// It lives and has told how it is reached, but turns to nobody.
class SilentRank {
 public:
  SilentRank(const Start& start) {
    thread_ = std::jthread([start](const std::stop_token& stop) {
      Membership membership(start, 60);
      protocol::Member me;
      me.rank = start.rank;
      me.host = host_identity();
      Deaths deaths(start.size);
      const Wiring wiring(start, membership.join(me), membership.local_address(), 1, {}, deaths);
      membership.offer(-1, wiring.addresses());
      while (!stop.stop_requested()) membership.look_for_deaths(0.05);
      membership.leave(Members::kWell, -1, "");
    });
  }

 private:
  std::jthread thread_;
};

TEST(Job, NamesARankThatTurnsToNobody) {
  const std::string key = random_key();
  const Coordinator coordinator({{"127.0.0.1", 0}, 3, key});
  Start start;
  start.size = 3;
  start.key = key;
  start.address = coordinator.address().text();
  start.transport = "ucx";
  const auto as = [&](int rank) {
    Start its = start;
    its.rank = rank;
    return its;
  };
  JobOptions options;
  options.join_seconds = 3;
  const auto expect_blame = [&](int rank) {
    try {
      const Job job(as(rank), options);
      ADD_FAILURE() << "rank " << rank << " has started";
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::deadline) << error.what();
      EXPECT_EQ(error.peer(), 2) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("to connect with it, but still missing are: rank 2"));
    }
  };
  const SilentRank silent(as(2));
  const std::jthread first([&] { expect_blame(0); });
  expect_blame(1);
}

TEST(Wiring, NumbersHostsInOrderOfFirstRank) {
  std::vector<protocol::Member> members(4);
  for (auto [rank, host] : {std::pair(0, "z"), {1, "a"}, {2, "z"}, {3, "b"}})
    members[rank].host = host;
  EXPECT_EQ(hosts_of(members), (std::vector{0, 1, 0, 2}));
}

TEST(Wiring, RefusesWhatCannotReachAll) {
  Deaths deaths(2);
  Start start;
  start.size = 2;
  start.transport = "shm";
  std::vector<protocol::Member> members(2);
  members[1].host = "another";
  EXPECT_THAT([&] { Wiring(start, members, "127.0.0.1", 1, {}, deaths); },
              ThrowsMessage<UsageError>(HasSubstr("2 hosts: use auto or ucx")));
  start.transport = "auto";
  EXPECT_THAT([&] { Wiring(start, members, "127.0.0.1", 1, {}, deaths); },
              ThrowsMessage<UsageError>(HasSubstr("--iface")));
}

}  // namespace
}  // namespace lockstep
