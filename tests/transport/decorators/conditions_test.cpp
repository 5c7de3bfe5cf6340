// --shape and --fault hold for a rank's background jobs as for the rank.
#include "transport/decorators/conditions.h"

#include <gtest/gtest.h>

#include "transport/simulated/simulated.h"

namespace lockstep::testing {
namespace {

constexpr Tag kTag{Purpose::weights, 1};

// Two ranks in virtual time.
void run_under(const Conditions& conditions, const Body& body) {
  SimulatedCluster cluster;
  cluster.ranks = 2;
  run_simulated(cluster, [&](Rank& rank) {
    const Sleep sleep = [&](double seconds) { rank.clock.charge(seconds); };
    Conditioned conditioned(rank, conditions, sleep);
    body(conditioned.rank());
  });
}

TEST(Conditioned, JobsShareTheLinkWithTheRankAndWithEachOther) {
  Conditions conditions;
  conditions.link = {1e6, 0};
  std::vector<double> seen;
  run_under(conditions, [&](Rank& rank) {
    std::vector<std::byte> second(1'000'000);  // takes one
    const Bytes bytes{second.data(), second.size()};
    const auto pass_on = [&](Transport& lane) {
      if (rank.rank() == 0) return void(lane.wait(lane.send(1, kTag, bytes)));
      lane.wait(lane.recv(0, kTag, bytes));
      seen.push_back(lane.now());
    };
    pass_on(rank.peers);
    rank.background.post(pass_on);
    rank.background.wait(rank.background.post(pass_on));
  });
  ASSERT_EQ(seen.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(seen[i], i + 1, 0.01);
}

TEST(Conditioned, AFaultCountsTheOperationsOfAllJobs) {
  Conditions conditions;
  conditions.faults = {parse_fault("kill:rank=0,after=4")};
  int jobs = 0;
  run_under(conditions, [&](Rank& rank) {
    if (rank.rank() == 1) return;
    for (; jobs < 10; ++jobs)
      rank.background.wait(
          rank.background.post([](Transport& lane) { (void)lane.probe(1, kTag); }));
  });
  EXPECT_EQ(jobs, 4);
}

// One that waits for a message may outlive whoever posted it.
TEST(Conditioned, MayGoBeforeItsJobs) {
  Conditions conditions;
  conditions.link = {1e6, 0};
  bool came = false;
  run_under(conditions, [&](Rank& rank) {
    rank.background.post([&came, me = rank.rank()](Transport& lane) {
      int value = 7;
      if (me == 0) return void(lane.wait(lane.send(1, kTag, bytes_of(value))));
      lane.wait(lane.recv(0, kTag, bytes_of(value)));
      came = value == 7;
    });
    rank.clock.charge(1e-9);  // else jobs that have not begun are dropped
  });
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace lockstep::testing
