// Broadcast, reduce, reduce-scatter, all-gather and barrier over every transport: results and
// bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>

#include "collectives/all_gather.h"
#include "collectives/barrier.h"
#include "collectives/broadcast.h"
#include "collectives/ring.h"
#include "data.h"

namespace lockstep {
namespace {

using namespace testing;

constexpr int kMost = 9;
constexpr std::size_t kCounts[] = {0, 1, 8, 97, 400'009};
constexpr std::size_t kLongest = 400'009;

class Verbs : public ::testing::TestWithParam<World> {
 protected:
  // Among the first 1, 2, … 9 ranks.
  void each_size(const std::function<void(Transport&)>& body) {
    GetParam().run(kMost,
                   [&](Rank& rank) {
                     for (const int m : {1, 2, 3, 4, 5, 8, 9})
                       if (const auto group = first_ranks(rank, m)) body(*group);
                   },
                   {});
  }
};

// Runs `verb` and returns how many values this rank sent.
template <class Verb>
std::size_t sent_by(Transport& transport, Values values, Verb verb) {
  Ledger ledger(transport.size());
  Metered metered(transport, ledger);
  verb(metered);
  return total(ledger).bytes_sent / size_of(values.type());
}

TEST_P(Verbs, BroadcastGivesAllTheRootsValues) {
  each_size([](Transport& peers) {
    Buffer buffer(peers, false, kLongest * 4);
    const int m = peers.size();
    for (const std::size_t count : kCounts)
      for (const int root : {0, m / 2, m - 1}) {
        const Values values = buffer.values(count, Type::int32);
        fill(values, peers.rank());
        const std::size_t sent =
            sent_by(peers, values, [&](Transport& t) { broadcast(t, kTag, values, root); });
        std::vector<std::byte> of_root(count * 4);
        fill({of_root.data(), count, Type::int32}, root);
        ASSERT_TRUE(same_bits(values, of_root)) << m << " ranks, root " << root;
        if (peers.rank() == root) {
          ASSERT_EQ(sent, count * std::bit_width(static_cast<unsigned>(m - 1)));
        }
      }
  });
}

TEST_P(Verbs, ReduceGivesTheRootTheTotal) {
  each_size([](Transport& peers) {
    Buffer buffer(peers, false, kLongest * 4);
    const int m = peers.size();
    for (const std::size_t count : kCounts)
      for (const int root : {0, m / 2, m - 1})
        for (const Op op : {Op::sum, Op::mean}) {
          const Values values = buffer.values(count, Type::fp32, op);
          fill(values, peers.rank());
          const std::size_t sent =
              sent_by(peers, values, [&](Transport& t) { reduce(t, kTag, values, root); });
          ASSERT_EQ(sent, peers.rank() == root ? 0 : count);
          if (peers.rank() == root) {
            ASSERT_TRUE(same_bits(values, expected(m, count, Type::fp32, op)));
          }
        }
  });
}

TEST_P(Verbs, ThereIsNoSuchRoot) {
  each_size([](Transport& peers) {
    const Values none(nullptr, 0, Type::fp32);
    EXPECT_THROW(broadcast(peers, kTag, none, peers.size()), UsageError);
    EXPECT_THROW(reduce(peers, kTag, none, -1), UsageError);
  });
}

TEST_P(Verbs, ReduceScatterGivesEachRankItsChunkOfTheTotal) {
  each_size([](Transport& peers) {
    Buffer buffer(peers, false, kLongest * 4);
    const int m = peers.size();
    for (const std::size_t count : kCounts)
      for (const Op op : {Op::mean, Op::max}) {
        const Values values = buffer.values(count, Type::fp32, op);
        fill(values, peers.rank());
        const std::size_t sent =
            sent_by(peers, values, [&](Transport& t) { reduce_scatter(t, kTag, values); });
        const Slice own = chunk(count, m, peers.rank());
        ASSERT_EQ(sent, count - own.count);
        std::vector<std::byte> whole = expected(m, count, Type::fp32, op);
        const auto begin = whole.begin() + own.begin * 4;
        ASSERT_TRUE(same_bits(values.part(own), {begin, begin + own.count * 4}));
      }
  });
}

TEST_P(Verbs, AllGatherGivesAllEveryPart) {
  each_size([](Transport& peers) {
    Buffer buffer(peers, false, kLongest * 4);
    const int m = peers.size(), r = peers.rank();
    for (const std::size_t count : kCounts) {
      const Values values = buffer.values(count, Type::int32);
      std::vector<std::byte> all(count * 4);
      const Values wanted(all.data(), count, Type::int32);
      for (int rank = 0; rank < m; ++rank) fill(wanted.part(chunk(count, m, rank)), rank);
      fill(values, 11);
      fill(values.part(chunk(count, m, r)), r);
      const std::size_t sent =
          sent_by(peers, values, [&](Transport& t) { all_gather(t, kTag, values); });
      ASSERT_EQ(sent, count - chunk(count, m, (r + 1) % m).count);
      ASSERT_TRUE(same_bits(values, all));
    }
  });
}

TEST_P(Verbs, PartsOfAnAllGatherMayDiffer) {
  each_size([](Transport& peers) {
    const int m = peers.size(), r = peers.rank();
    std::vector<std::size_t> counts(m), begins(m);
    for (int i = 0; i < m; ++i) counts[i] = i % 3 == 1 ? 0 : 1000u * i + 1;
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
    const std::size_t count = begins.back() + counts.back();
    Buffer buffer(peers, false, count * 4);
    const Values values = buffer.values(count, Type::int32);
    std::vector<std::byte> all(count * 4);
    const Values wanted(all.data(), count, Type::int32);
    for (int i = 0; i < m; ++i) fill(wanted.part({begins[i], counts[i]}), i);
    fill(values.part({begins[r], counts[r]}), r);
    const std::size_t sent =
        sent_by(peers, values, [&](Transport& t) { all_gather_v(t, kTag, values, counts); });
    EXPECT_EQ(sent, count - counts[(r + 1) % m]);
    EXPECT_TRUE(same_bits(values, all));

    counts[0] += 1;
    EXPECT_THROW(all_gather_v(peers, kTag, values, counts), UsageError);
    counts.pop_back();
    EXPECT_THROW(all_gather_v(peers, kTag, values, counts), UsageError);
  });
}

// What rank r comes with to an all-gather of unknown lengths: a full slot, nothing, or in between.
std::size_t length_of(int rank, std::size_t slot) {
  return rank % 3 == 0 ? slot : rank % 3 == 1 ? 0 : slot / 2 + rank;
}

TEST_P(Verbs, PartsOfAnAllGatherMayHaveLengthsThatOnlyTheirRanksKnow) {
  each_size([](Transport& peers) {
    const int m = peers.size(), r = peers.rank();
    for (const std::size_t slot : {20u, 1'300'000u})
      for (const Type type : {Type::bytes, Type::fp16}) {
        const std::size_t width = size_of(type);
        Buffer buffer(peers, false, slot * m * width);
        const Values slots = buffer.values(slot * m, type);
        fill(slots, 11);
        std::vector<std::byte> wanted(slots.bytes().data, slots.bytes().data + slots.bytes().size);
        std::vector<std::size_t> lengths;
        for (int i = 0; i < m; ++i) {
          lengths.push_back(length_of(i, slot));
          fill(Values(wanted.data() + i * slot * width, lengths.back(), type), i);
        }
        fill(slots.part({r * slot, lengths[r]}), r);
        std::vector<std::size_t> counts;
        const std::size_t sent = sent_by(peers, Values(nullptr, 0, Type::bytes), [&](Transport& t) {
          counts = all_gather_slots(t, kTag, slots, lengths[r]);
        });
        ASSERT_EQ(counts, lengths);
        ASSERT_TRUE(same_bits(slots, wanted)) << m << " ranks, " << name_of(type);
        const std::size_t parts = std::reduce(lengths.begin(), lengths.end());
        ASSERT_EQ(sent, (parts - lengths[(r + 1) % m]) * width + 8u * (m - 1));
      }
  });
}

TEST_P(Verbs, HollowPartsMoveTheirSizes) {
  if (!carries_hollow(GetParam())) return;
  each_size([](Transport& peers) {
    const int m = peers.size(), r = peers.rank();
    const std::size_t slot = 10'000'000;
    std::vector<std::size_t> counts;
    const std::size_t sent = sent_by(peers, Values(nullptr, 0, Type::bytes), [&](Transport& t) {
      counts = all_gather_slots(t, kTag, Values::hollow(slot * m, Type::bytes), length_of(r, slot));
    });
    std::size_t others = 8u * (m - 1);
    for (int i = 0; i < m; ++i) {
      EXPECT_EQ(counts[i], length_of(i, slot));
      if (i != (r + 1) % m) others += counts[i];
    }
    EXPECT_EQ(sent, others);
  });
}

TEST_P(Verbs, ARankThatGathersMoreThanASlotIsNamed) {
  GetParam().run(
      2,
      [](Rank& rank) {
        std::byte memory[12] = {};
        EXPECT_THROW(all_gather_slots(rank.peers, kTag, {memory, 11, Type::bytes}, 1), UsageError);
        EXPECT_THROW(all_gather_slots(rank.peers, kTag, {memory, 10, Type::bytes}, 6), UsageError);
        const std::size_t slots = rank.rank() == 0 ? 12 : 8;
        try {
          all_gather_slots(rank.peers, kTag, {memory, slots, Type::bytes},
                           rank.rank() == 0 ? 6 : 1);
        } catch (const TransportError& e) {
          EXPECT_EQ(e.peer(), 1 - rank.rank());
          if (rank.rank() == 1) {
            EXPECT_THAT(e.what(),
                        ::testing::HasSubstr("rank 0 gathers 6 values where rank 1 has room "
                                             "for 4 (gradients 3)"));
          }
          return;
        }
        EXPECT_EQ(rank.rank(), 0) << "took it";
      },
      {});
}

TEST_P(Verbs, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> came[10]{};
  each_size([&](Transport& peers) {
    for (int round = 0; round < 20; ++round) {
      ++came[peers.size()];
      EXPECT_EQ(
          sent_by(peers, Values(nullptr, 0, Type::fp32), [](Transport& t) { barrier(t, kTag); }),
          0u);
      EXPECT_GE(came[peers.size()], (round + 1) * peers.size());
    }
  });
}

TEST_P(Verbs, AWrongSizeIsBlamedOnTheRankOfTheJob) {
  GetParam().run(4,
                 [](Rank& rank) {
                   if (rank.rank() % 2 == 0) return;
                   Group group(rank.peers, {3, 1});
                   int values[7] = {};
                   if (rank.rank() == 3) return broadcast(group, kTag, {values, 5, Type::int32});
                   try {
                     broadcast(group, kTag, {values, 7, Type::int32});
                     FAIL() << "took it";
                   } catch (const TransportError& e) {
                     EXPECT_EQ(e.peer(), 3);
                     EXPECT_THAT(e.what(), ::testing::HasSubstr(
                                               "rank 3 sent 20 bytes where rank 1 expected 28"));
                   }
                 },
                 {});
}

INSTANTIATE_TEST_SUITE_P(Every, Verbs, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
