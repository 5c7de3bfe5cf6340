// Groups of chosen ranks on all lanes, over every transport.
#include "transport/rank_group.h"

#include <gmock/gmock.h>

#include <array>

#include "worlds.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;

constexpr Tag kTag{Purpose::activations, 5};

// Every member tells every other its number in the group and in the job.
void introduce(Transport& group, int job_rank, const std::vector<int>& ranks) {
  ASSERT_EQ(group.size(), std::ssize(ranks));
  ASSERT_EQ(ranks[group.rank()], job_rank);
  std::vector<Pending> sent;
  std::array<int, 2> mine{group.rank(), job_rank};
  for (int i = 0; i < group.size(); ++i)
    if (i != group.rank()) sent.push_back(group.send(i, kTag, bytes_of(mine)));
  for (int i = 0; i < group.size(); ++i) {
    if (i == group.rank()) continue;
    std::array<int, 2> theirs{};
    group.wait(group.recv(i, kTag, bytes_of(theirs)));
    EXPECT_THAT(theirs, ElementsAre(i, ranks[i]));
  }
  for (Pending& send : sent) group.wait(send);
}

class RankGroups : public ::testing::TestWithParam<World> {
 protected:
  void run(int ranks, const Body& body, int background_lanes = 1) {
    FabricOptions options;
    options.patience_seconds = 60;
    options.lanes.background = background_lanes;
    GetParam().run(ranks, body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Every, RankGroups, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RankGroups, SeeEachOtherOnEveryLane) {
  run(5, [](Rank& rank) {
    const std::vector<int> ranks =
        rank.rank() % 2 == 0 ? std::vector<int>{4, 0, 2} : std::vector<int>{3, 1};
    RankGroup group(rank, ranks, 10 + rank.rank());
    Rank& inner = group.rank();
    EXPECT_EQ(inner.size(), std::ssize(ranks));
    EXPECT_EQ(&inner.clock, &rank.clock);
    EXPECT_EQ(&inner.lock, &rank.lock);
    EXPECT_EQ(inner.seed, rank.seed);
    const auto tell = [&, me = rank.rank()](Transport& lane) { introduce(lane, me, ranks); };
    const auto job = inner.background.post(tell);
    const auto score = inner.scoring->post(tell);
    tell(inner.peers);
    inner.background.wait(job);
    inner.scoring->wait(score);
  });
}

// Two roles of a rank work at once, each with peers of its own, in opposite directions.
TEST_P(RankGroups, TwoOnOneRankWorkAtOnceOnLanesOfTheirOwn) {
  run(
      4,
      [](Rank& rank) {
        const int me = rank.rank();
        const std::vector<int> all{3, 2, 1, 0};
        const std::vector<int> pair =
            me == 0 || me == 3 ? std::vector<int>{0, 3} : std::vector{2, 1};
        RankGroup first(rank, all, me), second(rank, pair, 4 + me, 1);
        EXPECT_THROW(second.rank().background_lane(1), UsageError);
        EXPECT_NO_THROW(first.rank().background_lane(1));
        EXPECT_THROW(RankGroup(rank, all, me, 2), UsageError);
        const auto one = first.rank().background.post([&](Transport& lane) {
          for (int i = 0; i < 20; ++i) introduce(lane, me, all);
        });
        const auto other = second.rank().background.post([&](Transport& lane) {
          for (int i = 0; i < 30; ++i) introduce(lane, me, pair);
        });
        introduce(first.rank().peers, me, all);
        introduce(second.rank().peers, me, pair);
        first.rank().background.wait(one);
        second.rank().background.wait(other);
      },
      2);
}

TEST_P(RankGroups, HaveRandomStreamsOfTheirOwn) {
  run(2, [](Rank& rank) {
    const std::vector<int> reversed{1, 0};
    RankGroup one(rank, reversed, 7), other(rank, reversed, 8), itself(rank, {0, 1}, rank.rank());
    EXPECT_EQ(one.rank().random(3)(), Rng(rank.seed, 7, 3)());
    EXPECT_EQ(other.rank().random(3)(), Rng(rank.seed, 8, 3)());
    EXPECT_EQ(itself.rank().random(3)(), rank.random(3)());
    EXPECT_EQ(rank.random(3)(), Rng(rank.seed, rank.rank(), 3)());
  });
}

TEST_P(RankGroups, MeetInTheirWindowsOnEveryLane) {
  run(4, [](Rank& rank) {
    const std::vector<int> ranks =
        rank.rank() < 2 ? std::vector<int>{1, 0} : std::vector<int>{2, 3};
    RankGroup group(rank, ranks, rank.rank());
    const auto window = group.rank().peers.open_window(64);
    if (!window->reaches_all()) return;
    window->mine().data[0] = std::byte(rank.rank());
    const auto job = group.rank().background.post([&](Transport& lane) {
      Window* const mine = lane.window_at(window->mine().data);
      ASSERT_NE(mine, nullptr);
      EXPECT_THAT(mine->members(), ElementsAre(0, 1));
      EXPECT_EQ(mine->meet({}), -1);
      for (const int i : {0, 1}) EXPECT_EQ(mine->of(i).data[0], std::byte(ranks[i]));
      mine->meet({});
    });
    group.rank().background.wait(job);
  });
}

TEST_P(RankGroups, AJobMayOutliveTheGroup) {
  run(2, [](Rank& rank) {
    const std::vector<int> reversed{1, 0};
    std::uint64_t job = 0;
    {
      RankGroup group(rank, reversed, rank.rank());
      job = group.rank().background.post(
          [&, me = rank.rank()](Transport& lane) { introduce(lane, me, reversed); });
    }
    rank.background.wait(job);
  });
}

}  // namespace
}  // namespace lockstep::testing
