// The table, its formulas and what `auto` makes of it.
#include "collectives/all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>

#include "data.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Place one_host(int ranks) { return {std::vector<int>(ranks, 0)}; }

struct Cost {
  std::size_t total = 0, busiest = 0;
};

Cost cost_of(std::string_view name, std::size_t count, const Place& place) {
  Cost cost;
  for (int r = 0; r < place.ranks(); ++r) {
    const std::size_t sent = all_reduce_named(name).sent(count, place, r);
    cost.total += sent;
    cost.busiest = std::max(cost.busiest, sent);
  }
  return cost;
}

TEST(AllReduceCost, TotalsAreThoseOfTheTextbook) {
  for (std::size_t m = 1; m <= 17; ++m)
    for (const std::size_t n : {0, 1, 5, 16, 17, 97, 7919, 720720}) {
      const Place place = one_host(static_cast<int>(m));
      const std::size_t p = std::bit_floor(m), log_p = std::bit_width(p) - 1;
      for (const AllReduceRow& row : all_reduces()) {
        if (!row.sent) continue;
        std::size_t total = 2 * n * (m - 1);
        if (row.name == "all-to-all") total = n * m * (m - 1);
        if (row.name == "butterfly") total = n * (p * log_p + 2 * (m - p));
        EXPECT_EQ(cost_of(row.name, n, place).total, total) << row.name << " " << m << " " << n;
      }
    }
}

TEST(AllReduceCost, BusiestRanksAreThoseOfTheTextbook) {
  const std::size_t n = 720720;  // divisible by all m below
  for (std::size_t m = 2; m <= 16; ++m) {
    const Place place = one_host(static_cast<int>(m));
    const auto busiest = [&](std::string_view name) { return cost_of(name, n, place).busiest; };
    const std::size_t p = std::bit_floor(m), log_p = std::bit_width(p) - 1, share = n / m * (m - 1);
    EXPECT_EQ(busiest("all-to-all"), n * (m - 1));
    EXPECT_EQ(busiest("master-worker"), n * (m - 1));
    EXPECT_EQ(busiest("tree"), n * (m < 4 ? m - 1 : m < 5 ? 2 : 3)) << m;
    EXPECT_EQ(busiest("butterfly"), n * (log_p + (p != m)));
    EXPECT_EQ(busiest("halving-doubling"), 2 * (n / p) * (p - 1) + (p != m ? n : 0));
    EXPECT_EQ(busiest("ring-reduce"), m == 2 ? n : 2 * n);
    EXPECT_LE(busiest("double-tree"), 2 * n);
    for (const auto name : {"ring", "round-robin", "hierarchical", "shared"})
      EXPECT_EQ(busiest(name), 2 * share) << name << " " << m;
  }
}

TEST(AllReduceCost, OnlyShardsCrossBetweenHosts) {
  // Two hosts of three ranks, dealt out in turn.
  const Place place{{0, 1, 0, 1, 0, 1}};
  EXPECT_EQ(by_host(place), (std::vector<std::vector<int>>{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(cost_of("hierarchical", 600, place).busiest, 400u + 200 + 400);
  EXPECT_FALSE(even_hosts(by_host({{0, 0, 1}})));
  EXPECT_FALSE(even_hosts(by_host(one_host(4))));
}

TEST(AllReduceTable, AnUnknownNameGetsTheNearest) {
  try {
    all_reduce_named("rnig");
    FAIL() << "found";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("'ring'"));
    for (const AllReduceRow& row : all_reduces())
      EXPECT_THAT(e.what(), HasSubstr(std::string(row.name)));
  }
}

TEST(AutoAllReduce, ChoosesBySizeRanksAndPlace) {
  const Place hosts{{0, 0, 1, 1}};
  EXPECT_EQ(choose(100 << 20, one_host(4), true).name, "shared");
  EXPECT_EQ(choose(64, one_host(4), false).name, "butterfly");
  EXPECT_EQ(choose(64, one_host(5), false).name, "tree");
  EXPECT_EQ(choose(64 << 10, one_host(4), false).name, "halving-doubling");
  EXPECT_EQ(choose(100 << 20, one_host(5), false).name, "ring");
  EXPECT_EQ(choose(100 << 20, hosts, false).name, "hierarchical");
  EXPECT_EQ(choose(100 << 20, {{0, 1, 2, 3}}, false).name, "ring");
}

TEST(AutoAllReduce, WorksInPlaceWhereThereIsAWindow) {
  run_loopback(3, [](Rank& rank) {
    Buffer buffer(rank.peers, true, 400);
    const Values values = buffer.values(100, Type::fp32);
    fill(values, rank.rank());
    Ledger ledger(rank.size());
    Metered metered(rank.peers, ledger);
    auto_all_reduce(metered, kTag, values);
    EXPECT_EQ(total(ledger).messages_sent, 0u);
    EXPECT_TRUE(same_bits(values, expected(3, 100, Type::fp32, Op::sum)));
  });
}

TEST(SharedAllReduce, NeedsAWindowOfAllRanks) {
  FabricOptions options;
  options.ranks_per_host = 2;
  const auto refused = [](Transport& peers, Values values) {
    try {
      shared_all_reduce(peers, kTag, values);
      FAIL() << "accepted";
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr("open_window"));
    }
  };
  run_loopback(
      4,
      [&](Rank& rank) {
        Buffer plain(rank.peers, false, 40), two_hosts(rank.peers, true, 40);
        refused(rank.peers, plain.values(10, Type::fp32));
        refused(rank.peers, two_hosts.values(10, Type::fp32));
        refused(rank.peers, Values::hollow(10, Type::fp32));
        const int first = rank.rank() / 2 * 2;
        Group mates(rank.peers, {first, first + 1});
        Buffer ours(mates, true, 40);
        refused(rank.peers, ours.values(10, Type::fp32));  // a window of some
        refused(mates, ours.values(11, Type::fp32));       // longer than it
        shared_all_reduce(mates, kTag, ours.values(10, Type::fp32));
      },
      options);
}

TEST(SharedAllReduce, DisagreementNamesTheRankAndBothCalls) {
  std::atomic<int> told = 0;
  run_loopback(3, [&](Rank& rank) {
    Buffer buffer(rank.peers, true, 400);
    const Type type = rank.rank() == 1 ? Type::fp64 : Type::fp32;
    try {
      shared_all_reduce(rank.peers, kTag, buffer.values(50, type));
    } catch (const TransportError& e) {
      ++told;
      EXPECT_EQ(e.kind(), TransportError::Kind::mismatch);
      EXPECT_EQ(e.peer(), rank.rank() == 1 ? 0 : 1);
      EXPECT_THAT(e.what(), HasSubstr("50 values (fp64 sum)"));
      EXPECT_THAT(e.what(), HasSubstr("50 values (fp32 sum)"));
    }
  });
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace lockstep
