// Collectives beside the rank's own thread: on background lanes, in groups, in windows that the
// rank's own lane opened.
#include <gtest/gtest.h>

#include "collectives/all_reduce.h"
#include "data.h"
#include "transport/rank_group.h"

namespace lockstep {
namespace {

using namespace testing;

class CollectivesOnLanes : public ::testing::TestWithParam<World> {
 protected:
  void run(int ranks, const Body& body) {
    FabricOptions options;
    options.patience_seconds = 60;
    options.lanes.background = 2;
    GetParam().run(ranks, body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(Every, CollectivesOnLanes, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

// Sums that are rounded, so that another order would show.
void fill_reals(Values values, int rank) {
  Rng random(3, rank, 5);
  for (std::size_t i = 0; i < values.count(); ++i) put(values, i, random.normal());
}

TEST_P(CollectivesOnLanes, SharedOnABackgroundLaneGivesTheBitsOfTheOwnLane) {
  if (!shares_memory(GetParam())) return;
  const std::size_t count = 10'007;
  run(3, [&](Rank& rank) {
    Buffer a(rank.peers, true, count * 4), b(rank.peers, true, count * 4);
    const Values beside = a.values(count, Type::fp32, Op::mean);
    const Values own = b.values(count, Type::fp32, Op::mean);
    for (int round = 0; round < 5; ++round) {
      fill_reals(beside, rank.rank() + 3 * round);
      fill_reals(own, rank.rank() + 3 * round);
      Ledger ledger(rank.size());
      const auto job = rank.background.post([&](Transport& lane) {
        Metered metered(lane, ledger);
        shared_all_reduce(metered, kTag, beside);
      });
      shared_all_reduce(rank.peers, kTag, own);  // at the same time, with the same words
      rank.background.wait(job);
      const Bytes bytes = own.bytes();
      ASSERT_TRUE(same_bits(beside, {bytes.data, bytes.data + bytes.size})) << "round " << round;
      const auto moved = total(ledger);
      EXPECT_EQ(moved.bytes_sent + moved.bytes_received,
                4 * shared_sent(count, place_of(rank.peers), rank.rank()));
    }
  });
}

// The gradients' own memory, one half on each lane, while the other half is used.
TEST_P(CollectivesOnLanes, TwoLanesShareOneWindow) {
  if (!shares_memory(GetParam())) return;
  const std::size_t count = 5'000;
  run(4, [&](Rank& rank) {
    Buffer buffer(rank.peers, true, count * 4);
    const Values all = buffer.values(count, Type::fp32, Op::sum);
    const Values parts[] = {all.part({0, 1'234}), all.part({1'234, count - 1'234})};
    for (int round = 0; round < 20; ++round) {
      fill(parts[0], rank.rank());
      fill(parts[1], rank.rank());
      const auto first =
          rank.background.post([&](Transport& lane) { shared_all_reduce(lane, kTag, parts[0]); });
      const auto second = rank.background_lane(1).post(
          [&](Transport& lane) { auto_all_reduce(lane, kTag, parts[1]); });
      rank.background.wait(first);
      rank.background_lane(1).wait(second);
      for (const Values& part : parts)
        ASSERT_TRUE(same_bits(part, expected(4, part.count(), Type::fp32, Op::sum)));
    }
  });
}

// Stage by stage of a grid, and a second group in reversed order on the same ranks at once.
TEST_P(CollectivesOnLanes, GroupsReduceBesideEachOther) {
  const std::size_t count = 3'001;
  run(4, [&](Rank& rank) {
    const int me = rank.rank();
    const std::vector<int> pair = me % 2 == 0 ? std::vector{0, 2} : std::vector{3, 1};
    const std::vector<int> all{3, 1, 0, 2};
    RankGroup one(rank, pair, me), other(rank, all, 4 + me, 1);
    for (const AllReduceRow& row : all_reduces()) {
      if (row.name == "shared") continue;
      Buffer a(rank.peers, false, count * 4), b(rank.peers, false, count * 4);
      const Values halves = a.values(count, Type::int32), whole = b.values(count, Type::int32);
      fill(halves, one.rank().rank());
      fill(whole, other.rank().rank());
      const auto first =
          one.rank().background.post([&](Transport& lane) { row.run(lane, kTag, halves); });
      const auto second =
          other.rank().background.post([&](Transport& lane) { row.run(lane, kTag, whole); });
      one.rank().background.wait(first);
      other.rank().background.wait(second);
      ASSERT_TRUE(same_bits(halves, expected(2, count, Type::int32, Op::sum))) << row.name;
      ASSERT_TRUE(same_bits(whole, expected(4, count, Type::int32, Op::sum))) << row.name;

      fill(whole, other.rank().rank());
      row.run(other.rank().peers, kTag, whole);
      fill(halves, one.rank().rank());
      row.run(one.rank().peers, kTag, halves);
      ASSERT_TRUE(same_bits(halves, expected(2, count, Type::int32, Op::sum))) << row.name;
      ASSERT_TRUE(same_bits(whole, expected(4, count, Type::int32, Op::sum))) << row.name;
    }
  });
}

}  // namespace
}  // namespace lockstep
