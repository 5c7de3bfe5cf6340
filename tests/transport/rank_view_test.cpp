// Everything that wraps a Rank passes on, or wraps, all parts of it.
#include "transport/rank_view.h"

#include <gtest/gtest.h>

#include "measure/metered.h"
#include "transport/decorators/conditions.h"
#include "transport/decorators/witnessed.h"
#include "transport/rank_group.h"
#include "transport/simulated/simulated.h"
#include "worlds.h"

namespace lockstep::testing {
namespace {

constexpr Tag kTag{Purpose::weights, 1};
constexpr int kBackgroundLanes = 3, kStream = 77;

FabricOptions three_lanes() {
  FabricOptions options;
  options.patience_seconds = 60;
  options.lanes.background = kBackgroundLanes;
  return options;
}

// How many choices were noted on each stream.
struct CountingRecord final : WitnessedRank::Record {
  struct Counting final : Witness {
    bool replays() const override { return false; }
    void note(Kind, std::span<const std::uint64_t>) override { ++count; }
    int count = 0;
  };
  Witness& witness(int stream) override { return of[stream]; }
  std::map<int, Counting> of;
};

void unchanged(Rank& rank, const Body& body) {
  Conditioned conditioned(rank, {}, [](double) {});
  body(conditioned.rank());
}
void shaped_rank(Rank& rank, const Body& body) {
  Conditions conditions;
  conditions.link = {1e9, 0};
  Conditioned conditioned(rank, conditions, [](double) {});
  body(conditioned.rank());
}
void witnessed_rank(Rank& rank, const Body& body) {
  WitnessedRank witnessed(rank, std::make_shared<CountingRecord>());
  body(witnessed.rank());
}
void group_of_all(Rank& rank, const Body& body) {
  RankGroup group(rank, {0, 1}, kStream);
  body(group.rank());
}
void metered_rank(Rank& rank, const Body& body) {
  MeteredRank metered(rank);
  body(metered.rank());
}

struct Wrapper {
  std::string name;
  void (*wrap)(Rank&, const Body&);
  friend std::ostream& operator<<(std::ostream& out, const Wrapper& w) { return out << w.name; }
};

class WrappedRanks : public ::testing::TestWithParam<Wrapper> {};
INSTANTIATE_TEST_SUITE_P(Every, WrappedRanks,
                         ::testing::Values(Wrapper{"unchanged", unchanged},
                                           Wrapper{"shaped", shaped_rank},
                                           Wrapper{"witnessed", witnessed_rank},
                                           Wrapper{"group", group_of_all},
                                           Wrapper{"metered", metered_rank}),
                         [](const auto& info) { return info.param.name; });

// A number goes from rank 0 to rank 1.
void pass_on(Transport& lane, int number) {
  int value = lane.rank() == 0 ? number : 0;
  if (lane.rank() == 0)
    lane.wait(lane.send(1, kTag, bytes_of(value)));
  else
    lane.wait(lane.recv(0, kTag, bytes_of(value)));
  EXPECT_EQ(value, number);
}

void pass_on_by(Background& background, int number) {
  background.wait(background.post([=](Transport& lane) { pass_on(lane, number); }));
}

TEST_P(WrappedRanks, HaveAllThatTheRankHas) {
  run_loopback(
      2,
      [](Rank& rank) {
        Rank outer = rank;
        outer.stream = kStream;
        GetParam().wrap(outer, [&](Rank& inner) {
          EXPECT_EQ(inner.rank(), rank.rank());
          EXPECT_EQ(inner.seed, rank.seed);
          EXPECT_EQ(inner.stream, kStream);
          ASSERT_TRUE(inner.scoring);
          ASSERT_EQ(inner.further.size(), rank.further.size());
          pass_on(inner.peers, 1);
          pass_on_by(*inner.scoring, 2);
          for (int lane = 0; lane < kBackgroundLanes; ++lane)
            pass_on_by(inner.background_lane(lane), 3 + lane);
        });
      },
      three_lanes());
}

TEST(WrappedRanks, CountWhatFurtherLanesMove) {
  run_loopback(
      2,
      [](Rank& rank) {
        MeteredRank metered(rank);
        for (int lane = 0; lane < kBackgroundLanes; ++lane)
          pass_on_by(metered.rank().background_lane(lane), lane);
        const Traffic moved = metered.exchanged();
        EXPECT_EQ(moved.messages_sent + moved.messages_received, kBackgroundLanes);
      },
      three_lanes());
}

TEST(WrappedRanks, RecordTheChoicesOfFurtherLanesApart) {
  run_loopback(
      2,
      [](Rank& rank) {
        const auto record = std::make_shared<CountingRecord>();
        WitnessedRank witnessed(rank, record);
        for (int lane = 0; lane < kBackgroundLanes; ++lane) {
          pass_on_by(witnessed.rank().background_lane(lane), lane);
          EXPECT_EQ(record->of[kBackgroundStream + lane].count, 1) << "lane " << lane;
        }
      },
      three_lanes());
}

TEST(WrappedRanks, SlowFurtherLanesDown) {
  SimulatedCluster cluster;
  cluster.ranks = 2;
  cluster.lanes.background = kBackgroundLanes;
  Conditions conditions;
  conditions.link = {std::numeric_limits<double>::infinity(), 1};  // a second late
  double end = 0;
  run_simulated(cluster, [&](Rank& rank) {
    Conditioned conditioned(rank, conditions, [&](double s) { rank.clock.charge(s); });
    pass_on_by(conditioned.rank().background_lane(kBackgroundLanes - 1), 1);
    if (rank.rank() == 1) end = rank.clock.now();
  });
  EXPECT_NEAR(end, 1, 0.01);
}

}  // namespace
}  // namespace lockstep::testing
