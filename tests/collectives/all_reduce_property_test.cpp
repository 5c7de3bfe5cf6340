// Seeded random calls over every transport, and what two all-reduces promise each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/all_reduce.h"
#include "collectives/messages.h"
#include "data.h"

namespace lockstep {
namespace {

using namespace testing;

class AllReduceProperty : public ::testing::TestWithParam<World> {
 protected:
  void run(int ranks, const Body& body) { GetParam().run(ranks, body, {}); }
};

class SharedMemory : public AllReduceProperty {};

// One call, the same for all ranks that draw it from the same stream.
struct Call {
  Call(Rng& rng, int ranks, bool shares_memory) : members(ranks) {
    std::iota(members.begin(), members.end(), 0);
    for (int i = ranks - 1; i > 0; --i) std::swap(members[i], members[rng.below(i + 1)]);
    members.resize(1 + rng.below(ranks));
    type = static_cast<Type>(rng.below(6));
    op = static_cast<Op>(rng.below(4));
    count = rng.below(std::size_t{1} << rng.below(19));
    do row = &all_reduces()[rng.below(all_reduces().size())];
    while (row->name == "shared" && !shares_memory);
  }
  std::vector<int> members;  // in any order
  Type type;
  Op op;
  std::size_t count;
  const AllReduceRow* row;
};

TEST_P(AllReduceProperty, RandomCallsAmongRandomRanks) {
  constexpr int ranks = 7;
  run(ranks, [&](Rank& rank) {
    Rng shared_draw(rank.seed, 0, purpose_of("calls"));
    for (int i = 0; i < 60; ++i) {
      const Call call(shared_draw, ranks, shares_memory(GetParam()));
      if (std::find(call.members.begin(), call.members.end(), rank.rank()) == call.members.end())
        continue;
      Group group(rank.peers, call.members);
      Buffer buffer(group, call.row->name == "shared", call.count * size_of(call.type));
      const Values values = buffer.values(call.count, call.type, call.op);
      fill(values, group.rank());
      call.row->run(group, kTag, values);
      ASSERT_TRUE(same_bits(values, expected(group.size(), call.count, call.type, call.op)))
          << "call " << i << ": " << call.row->name << " of " << call.count << " "
          << format_name(values.format()) << " among " << group.size();
    }
  });
}

TEST_P(SharedMemory, GivesTheSameBitsAsRoundRobin) {
  run(5, [&](Rank& rank) {
    Rng rng = rank.random(purpose_of("data"));
    for (const int m : {2, 3, 5}) {
      const auto group = first_ranks(rank, m);
      if (!group) continue;
      const std::size_t count = 50'021;
      Buffer in_window(*group, true, count * sizeof(float));
      Buffer plain(*group, false, count * sizeof(float));
      for (const Op op : {Op::sum, Op::mean}) {
        for (float& x : plain.floats(count)) x = static_cast<float>(rng.normal());
        const Values a = in_window.values(count, Type::fp32, op);
        const Values b = plain.values(count, Type::fp32, op);
        copy(a.bytes(), b.bytes());
        shared_all_reduce(*group, kTag, a);
        round_robin_all_reduce(*group, kTag, b);
        EXPECT_EQ(std::memcmp(a.bytes().data, b.bytes().data, count * sizeof(float)), 0) << m;
      }
    }
  });
}

// A chain that adds and passes on, and a chain back, in segments of every length.
TEST_P(AllReduceProperty, SegmentsOfAnyLengthGiveTheSameSum) {
  constexpr int m = 4;
  run(m, [&](Rank& rank) {
    const int r = rank.rank();
    for (const std::size_t segment_bytes : {4, 12, 100, 4000, 1 << 20}) {
      const std::size_t count = 1009;
      Buffer buffer(rank.peers, false, count * sizeof(float));
      const Values values = buffer.values(count, Type::fp32, Op::mean);
      fill(values, r);
      Messages messages(rank.peers, kTag, segment_bytes);
      auto step = Messages::kStart;
      if (r > 0) step = messages.fold(r - 1, values, r == m - 1 ? m : 0);
      if (r < m - 1) {
        step = messages.send(r + 1, values, step);
        step = messages.take(r + 1, values, step);
      }
      if (r > 0) messages.send(r - 1, values, step);
      messages.run();
      EXPECT_TRUE(same_bits(values, expected(m, count, Type::fp32, Op::mean))) << segment_bytes;
    }
  });
}

std::vector<World> sharing_worlds() {
  std::vector<World> all = worlds();
  std::erase_if(all, [](const World& world) { return !shares_memory(world); });
  return all;
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Every, AllReduceProperty, ::testing::ValuesIn(worlds()), kName);
INSTANTIATE_TEST_SUITE_P(Every, SharedMemory, ::testing::ValuesIn(sharing_worlds()), kName);

}  // namespace
}  // namespace lockstep
