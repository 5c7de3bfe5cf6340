// The lanes of a rank: there are as many as the job asks for, each has messages of its own, and
// that of scores is in nobody's way.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transport/shm/host.h"
#include "transport/simulated/star.h"
#include "worlds.h"

namespace lockstep::testing {
namespace {

// Both ranks swap a number of the lane's own on every lane.
void use_all_lanes(Rank& rank, int background) {
  constexpr Tag kOne{Purpose::evaluation, 1};
  const auto exchange = [&](Transport& lane, int mine) {
    int theirs = 0;
    Pending sent = lane.send(1 - lane.rank(), kOne, bytes_of(mine));
    lane.wait(lane.recv(1 - lane.rank(), kOne, bytes_of(theirs)));
    lane.wait(sent);
    EXPECT_EQ(theirs, mine);
  };
  for (int number = 0; number < background; ++number)
    rank.background_lane(number).post([&, number](Transport& lane) { exchange(lane, number); });
  rank.scoring->post([&](Transport& lane) { exchange(lane, -2); });
  EXPECT_EQ(&rank.background_lane(0), &rank.background);
  EXPECT_THROW(rank.background_lane(background), UsageError);
  exchange(rank.peers, -1);
  for (int number = 0; number < background; ++number) drain(rank.background_lane(number));
  drain(*rank.scoring);
}

class EveryLane : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Every, EveryLane, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryLane, HasMessagesOfItsOwn) {
  for (const int background : {1, 2, 5}) {
    if (background > 1 && GetParam().name == "simulated") break;  // one simulation a process
    FabricOptions options;
    options.lanes.background = background;
    GetParam().run(
        2, [&](Rank& rank) { use_all_lanes(rank, background); }, options);
  }
}

TEST(SimulatedLanes, AreAsManyAsTheJobAsksFor) {
  SimulatedCluster cluster = star(2);
  cluster.lanes.background = 5;
  run_simulated(cluster, [&](Rank& rank) { use_all_lanes(rank, 5); });
}

TEST(LanesOfAJob, HaveABound) {
  FabricOptions options;
  for (const int background : {0, -1, Lanes::kMostBackground + 1}) {
    options.lanes.background = background;
    EXPECT_THROW(run_loopback(
                     1, [](Rank&) {}, options),
                 UsageError);
  }
}

TEST(LanesOfAJob, AreTheSameNumberOnAllRanks) {
  Deaths deaths(2);
  const ShmHost first({0, {0, 0}, 1, {2}}, deaths);
  try {
    ShmHost other({1, {0, 0}, 1, {3}}, deaths, getpid(), first.fd());
    FAIL() << "took it";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(),
                 "rank 1 asks for 5 lanes and rank 0 for 4: all ranks of a job ask for the same "
                 "number");
  }
}

TEST(ScoringLane, HasALowPriority) {
  run_loopback(1, [](Rank& rank) {
    const auto priority = [](Transport&) { return getpriority(PRIO_PROCESS, gettid()); };
    const int own = priority(rank.peers);
    int background = 0, scoring = 0;
    rank.background.post([&](Transport& lane) { background = priority(lane); });
    rank.scoring->post([&](Transport& lane) { scoring = priority(lane); });
    drain(rank.background);
    drain(*rank.scoring);
    EXPECT_EQ(background, own);
    EXPECT_EQ(scoring, std::max(own, 10));
  });
}

TEST(ScoringLane, TakesNoBandwidthInSimulation) {
  run_simulated(star(2), [](Rank& rank) {
    const std::size_t bytes = 200'000'000;
    const auto exchange = [&](Transport& lane) {
      if (lane.rank() == 0) lane.wait(lane.send(1, kTag, ConstBytes(nullptr, bytes)));
      if (lane.rank() == 1) lane.wait(lane.recv(0, kTag, {nullptr, bytes}));
    };
    double scored = 0;
    rank.scoring->post([&](Transport& lane) {
      exchange(lane);
      scored = lane.now();
    });
    exchange(rank.peers);
    EXPECT_NEAR(rank.clock.now(), kAlpha + 0.1, 1e-9);
    drain(*rank.scoring);
    EXPECT_NEAR(scored, kAlpha, 1e-9);
  });
}

}  // namespace
}  // namespace lockstep::testing
