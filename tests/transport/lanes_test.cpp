// The lanes of a rank: each has messages of its own, and that of scores is in nobody's way.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transport/simulated_star.h"
#include "worlds.h"

namespace lockstep::testing {
namespace {

class Lanes : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Every, Lanes, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Lanes, HaveMessagesOfTheirOwn) {
  GetParam().run(2,
                 [](Rank& rank) {
                   constexpr Tag kOne{Purpose::evaluation, 1};
                   const auto exchange = [&](Transport& lane, int mine) {
                     int theirs = 0;
                     Pending sent = lane.send(1 - lane.rank(), kOne, bytes_of(mine));
                     lane.wait(lane.recv(1 - lane.rank(), kOne, bytes_of(theirs)));
                     lane.wait(sent);
                     EXPECT_EQ(theirs, mine);
                   };
                   rank.scoring->post([&](Transport& lane) { exchange(lane, 3); });
                   rank.background.post([&](Transport& lane) { exchange(lane, 2); });
                   exchange(rank.peers, 1);
                   rank.background.drain();
                   rank.scoring->drain();
                 },
                 {});
}

TEST(ScoringLane, HasALowPriority) {
  run_loopback(1, [](Rank& rank) {
    const auto priority = [](Transport&) { return getpriority(PRIO_PROCESS, gettid()); };
    const int own = priority(rank.peers);
    int background = 0, scoring = 0;
    rank.background.post([&](Transport& lane) { background = priority(lane); });
    rank.scoring->post([&](Transport& lane) { scoring = priority(lane); });
    rank.background.drain();
    rank.scoring->drain();
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
    rank.scoring->drain();
    EXPECT_NEAR(scored, kAlpha, 1e-9);
  });
}

}  // namespace
}  // namespace lockstep::testing
