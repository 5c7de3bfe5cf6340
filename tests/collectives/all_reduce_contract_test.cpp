// What all_reduce.h promises, for every row of the table over every transport. One fabric a test:
// smaller numbers of ranks are groups in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "collectives/all_reduce.h"
#include "data.h"

namespace lockstep {
namespace {

using namespace testing;

constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

class AllReduceContract : public ::testing::TestWithParam<std::tuple<World, std::string>> {
 protected:
  const World& world() const { return std::get<0>(GetParam()); }
  const AllReduceRow& row() const { return all_reduce_named(std::get<1>(GetParam())); }
  bool in_window() const { return row().name == "shared"; }
  void run(int ranks, const Body& body, const FabricOptions& options = {}) {
    world().run(ranks, body, options);
  }
};

// The row whose formula holds for this call: `auto` is what it chooses.
const AllReduceRow& counted_row(const AllReduceRow& row, Values values, const Place& place) {
  return row.sent ? row : choose(values.bytes().size, place, false);
}

std::uint64_t elements_sent(const AllReduceRow& row, const Ledger& ledger, Type type) {
  const Traffic t = total(ledger);
  return (t.bytes_sent + (row.name == "shared" ? t.bytes_received : 0)) / size_of(type);
}

void sums_exactly(const AllReduceRow& row, Transport& transport, Buffer& buffer,
                  std::size_t count) {
  Ledger ledger(transport.size());
  Metered metered(transport, ledger);
  const int m = transport.size();
  const Values values = buffer.values(count, Type::fp32);
  fill(values, transport.rank());
  row.run(metered, kTag, values);
  ASSERT_TRUE(same_bits(values, expected(m, count, Type::fp32, Op::sum)))
      << m << " ranks, " << count << " values";
  const Place place = place_of(transport);
  const AllReduceRow& counted = counted_row(row, values, place);
  ASSERT_EQ(elements_sent(row, ledger, Type::fp32), counted.sent(count, place, transport.rank()))
      << m << " ranks, " << count << " values";
}

TEST_P(AllReduceContract, SumsExactlyAndSendsWhatTheFormulaSays) {
  run(16, [&](Rank& rank) {
    for (const int m : kRanks) {
      const auto group = first_ranks(rank, m);
      if (!group) continue;
      const std::size_t most = m <= 9 ? 262144 : 7919;
      Buffer buffer(*group, in_window(), most * sizeof(float));
      for (const std::size_t count : {0, 1, m - 1, m, m + 1, 97, 7919, 262144})
        if (count <= most) sums_exactly(row(), *group, buffer, count);
    }
  });
}

TEST_P(AllReduceContract, LongVectorsGoInSegments) {
  run(3, [&](Rank& rank) {
    const std::size_t count = 1'300'021;
    Buffer buffer(rank.peers, in_window(), count * sizeof(float));
    sums_exactly(row(), rank.peers, buffer, count);
  });
}

class AcrossHosts : public AllReduceContract {};
TEST_P(AcrossHosts, SumsExactlyAndSendsWhatTheFormulaSays) {
  FabricOptions options;
  options.ranks_per_host = 2;
  run(
      6,
      [&](Rank& rank) {
        for (const int m : {4, 5, 6}) {  // with 5, hosts have unequal numbers
          const auto group = first_ranks(rank, m);
          if (!group) continue;
          Buffer buffer(*group, false, 300'000 * sizeof(float));
          for (const std::size_t count : {1, 97, 300'000})
            sums_exactly(row(), *group, buffer, count);
        }
      },
      options);
}

// Reals, and what makes min, max and sums depend on the order of operands.
float awkward(Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return std::numeric_limits<float>::quiet_NaN();
    case 3:
      return -std::numeric_limits<float>::quiet_NaN();
    default:
      return static_cast<float>(rng.normal() * std::exp2(rng.normal() * 8));
  }
}

TEST_P(AllReduceContract, AllRanksEndWithTheSameBits) {
  run(9, [&](Rank& rank) {
    Rng rng = rank.random(purpose_of("data"));
    for (const int m : {2, 3, 4, 6, 7, 8, 9}) {
      const auto group = first_ranks(rank, m);
      if (!group) continue;
      const std::size_t count = 1009;
      Buffer buffer(*group, in_window(), count * sizeof(float));
      for (const Op op : {Op::sum, Op::mean, Op::min, Op::max})
        for (const bool awkward_ones : {false, true}) {
          for (float& x : buffer.floats(count))
            x = awkward_ones ? awkward(rng) : static_cast<float>(rng.normal());
          const Values values = buffer.values(count, Type::fp32, op);
          row().run(*group, kTag, values);
          EXPECT_TRUE(same_everywhere(*group, values)) << m << " ranks, " << name_of(op);
        }
    }
  });
}

TEST_P(AllReduceContract, EveryTypeAndOperator) {
  run(5, [&](Rank& rank) {
    for (const int m : {1, 2, 3, 4, 5}) {
      const auto group = first_ranks(rank, m);
      if (!group) continue;
      const std::size_t count = 101;
      Buffer buffer(*group, in_window(), count * 8);
      for (const Type type :
           {Type::fp32, Type::fp64, Type::fp16, Type::bf16, Type::int32, Type::int64})
        for (const Op op : {Op::sum, Op::mean, Op::min, Op::max}) {
          const Values values = buffer.values(count, type, op);
          fill(values, group->rank());
          row().run(*group, kTag, values);
          EXPECT_TRUE(same_bits(values, expected(m, count, type, op)))
              << m << " ranks, " << name_of(type) << " " << name_of(op);
        }
    }
  });
}

TEST_P(AllReduceContract, MeansOfIntegersAreTheNearest) {
  run(9, [&](Rank& rank) {
    for (const int m : {2, 3, 9}) {
      const auto group = first_ranks(rank, m);
      if (!group) continue;
      Buffer buffer(*group, in_window(), 800);
      for (const Type type : {Type::int32, Type::int64}) {
        const Values values = buffer.values(100, type, Op::mean);
        std::vector<std::byte> twos(values.bytes().size);
        put({twos.data(), 100, type}, 0, 2);
        repeat({twos.data(), 100, type}, 1);
        put(values, 0, group->rank() == 0 ? m : 1);  // 2 - 1/m in the mean
        repeat(values, 1);
        row().run(*group, kTag, values);
        EXPECT_TRUE(same_bits(values, twos)) << m << " ranks, " << name_of(type);
      }
    }
  });
}

class HollowValues : public AllReduceContract {};
TEST_P(HollowValues, MoveTheSameBytes) {
  run(5, [&](Rank& rank) {
    for (const std::size_t count : {3, 10'007, 10'000'019}) {
      Ledger ledger(rank.size());
      Metered metered(rank.peers, ledger);
      const Values values = Values::hollow(count, Type::bf16, Op::mean);
      row().run(metered, kTag, values);
      const Place place = place_of(rank.peers);
      EXPECT_EQ(elements_sent(row(), ledger, Type::bf16),
                counted_row(row(), values, place).sent(count, place, rank.rank()));
    }
  });
}

// Rank 1 comes with something else; nobody may hang, and somebody is told why.
class Disagreement : public AllReduceContract {
 protected:
  void disagree(std::size_t count, Type type, Op op) {
    FabricOptions options;
    options.patience_seconds = 1;
    std::atomic<int> mismatches = 0;
    const auto body = [&](Rank& rank) {
      Buffer buffer(rank.peers, in_window(), 4096);
      const Values values = rank.rank() == 1 ? buffer.values(count, type, op)
                                             : buffer.values(100, Type::fp32, Op::sum);
      std::memset(values.bytes().data, 0, values.bytes().size);
      try {
        row().run(rank.peers, kTag, values);
      } catch (const TransportError& e) {
        if (e.kind() == TransportError::Kind::mismatch) ++mismatches;
        throw;
      }
    };
    EXPECT_THROW(run(3, body, options), TransportError);
    EXPECT_GE(mismatches, 1);
  }
};

TEST_P(Disagreement, AboutTheSizeIsAMismatch) { disagree(101, Type::fp32, Op::sum); }
TEST_P(Disagreement, AboutTheTypeIsAMismatch) { disagree(100, Type::int32, Op::sum); }
TEST_P(Disagreement, AboutTheOperatorIsAMismatch) { disagree(100, Type::fp32, Op::mean); }

using Case = std::tuple<World, std::string>;

// Every row over those worlds that can; `shared` where these share memory.
std::vector<Case> cases(bool (*can)(const World&), bool with_shared) {
  std::vector<Case> all;
  for (const World& world : worlds())
    for (const AllReduceRow& row : all_reduces())
      if (can(world) && (row.name != "shared" || (with_shared && shares_memory(world))))
        all.emplace_back(world, row.name);
  return all;
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::get<0>(info.param).name + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool any(const World&) { return true; }

INSTANTIATE_TEST_SUITE_P(Every, AllReduceContract, ::testing::ValuesIn(cases(any, true)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Every, Disagreement, ::testing::ValuesIn(cases(any, true)), test_name);
INSTANTIATE_TEST_SUITE_P(Every, AcrossHosts, ::testing::ValuesIn(cases(spans_hosts, false)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Every, HollowValues, ::testing::ValuesIn(cases(carries_hollow, false)),
                         test_name);

}  // namespace
}  // namespace lockstep
