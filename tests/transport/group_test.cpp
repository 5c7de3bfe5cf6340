#include "transport/group.h"

#include <gmock/gmock.h>

#include "transport/fabric.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Tag kTag{Purpose::gradients, 1};
constexpr Tag kOther{Purpose::gradients, 2};

TEST(Group, TranslatesBothWays) {
  run_loopback(5, [](Rank& r) {
    if (r.rank() % 2) return;
    Group group(r.peers, {4, 0, 2});
    const int expected[] = {1, -1, 2, -1, 0};
    EXPECT_EQ(group.rank(), expected[r.rank()]);
    EXPECT_EQ(group.size(), 3);
    // Everybody tells the next its job-wide rank.
    int mine = r.rank(), got = -1;
    Pending in = group.recv((group.rank() + 2) % 3, kTag, bytes_of(got));
    Pending out = group.send((group.rank() + 1) % 3, kTag, bytes_of(mine));
    EXPECT_EQ(group.wait(out).from, group.rank());
    EXPECT_EQ(group.wait(in).from, (group.rank() + 2) % 3);
    const int before[] = {4, -1, 0, -1, 2};
    EXPECT_EQ(got, before[r.rank()]);
  });
}

TEST(Group, ReceivesAndProbesSpeakGroupRanks) {
  run_loopback(3, [](Rank& r) {
    Group group(r.peers, {2, 1, 0});
    int value = 7, got = 0;
    if (r.rank() == 2) {
      group.wait(group.send(2, kTag, bytes_of(value)));
    } else if (r.rank() == 0) {
      std::optional<Arrival> seen;
      while (!seen) seen = group.probe(kAnyRank, kTag);
      EXPECT_EQ(seen->from, 0);
      EXPECT_EQ(group.wait(group.recv(0, kTag, bytes_of(got))).from, 0);
      EXPECT_EQ(got, 7);
    }
  });
}

TEST(Group, AMessageFromOutsideIsToldApart) {
  run_loopback(3, [](Rank& r) {
    int value = 7;
    if (r.rank() == 2) r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
    if (r.rank() != 0) return;
    Group group(r.peers, {0, 1});
    try {
      while (!group.probe(kAnyRank, kTag)) {
      }
      FAIL();
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::mismatch);
      EXPECT_EQ(error.peer(), 2);
    }
  });
}

TEST(Group, ErrorsNameTheJobsRank) {
  run_loopback(4, [](Rank& r) {
    if (r.rank() != 0) return;
    Group half(r.peers, {3, 0}), mirrored(half, {1, 0});  // a group of a group
    int got = 0;
    try {
      mirrored.wait(mirrored.recv(1, kTag, bytes_of(got)));
      FAIL();
    } catch (const TransportError& error) {
      EXPECT_EQ(error.kind(), TransportError::Kind::left);
      EXPECT_EQ(error.peer(), 3);
      EXPECT_THAT(error.what(), HasSubstr("rank 3"));
    }
  });
}

TEST(Group, HostsAreRenumbered) {
  FabricOptions options;
  options.ranks_per_host = 2;  // hosts of ranks 0..5: 0 0 1 1 2 2
  run_loopback(
      6,
      [](Rank& r) {
        if (r.rank() != 5) return;
        Group group(r.peers, {5, 0, 4, 2, 1});
        std::vector<int> hosts;
        for (int i = 0; i < group.size(); ++i) hosts.push_back(group.host_of(i));
        EXPECT_THAT(hosts, ElementsAre(0, 1, 0, 2, 1));
      },
      options);
}

TEST(Group, WindowsSpeakGroupRanks) {
  run_loopback(4, [](Rank& r) {
    if (r.rank() == 0) return;
    Group group(r.peers, {3, 1, 2});  // group ranks of 1, 2, 3: 1, 2, 0
    const auto window = group.open_window(64);
    EXPECT_THAT(window->members(), ElementsAre(0, 1, 2));
    window->mine().data[0] = std::byte(r.rank());
    // Rank 1 came for something else. For the others the first odd one is 1; for it, group rank 0.
    const int odd = window->meet({r.rank() == 1u, 0, 0});
    EXPECT_EQ(odd, r.rank() == 1 ? 0 : 1);
    EXPECT_EQ(window->said(1)[0], 1u);
    EXPECT_EQ(window->of(0).data[0], std::byte(3));
    EXPECT_EQ(window->of(2).data[0], std::byte(2));
    EXPECT_EQ(group.window_at(window->mine().data), window.get());
    window->meet({});

    if (group.rank() == 1) return;
    const std::vector<int> some{0, 2};
    const auto pair = group.open_window(8, some);
    EXPECT_THAT(pair->members(), ElementsAre(0, 2));
    EXPECT_EQ(pair->meet({}), -1);
  });
}

TEST(Group, WindowsOpenedBelowAreSeenIfAllMembersAreIn) {
  run_loopback(3, [](Rank& r) {
    const auto all = r.peers.open_window(64);
    Group reversed(r.peers, {2, 1, 0});
    Window* seen = reversed.window_at(all->mine().data + 8);
    ASSERT_NE(seen, nullptr);
    EXPECT_THAT(seen->members(), ElementsAre(0, 1, 2));
    EXPECT_EQ(seen->of(2 - r.rank()).data, all->mine().data);
    EXPECT_EQ(reversed.window_at(all->mine().data), seen);
    all->meet({});
    if (r.rank() == 2) return;
    Group pair(r.peers, {0, 1});
    EXPECT_EQ(pair.window_at(all->mine().data), nullptr) << "rank 2 would be missing at a meeting";
  });
}

TEST(Group, WrongRanksAreRefused) {
  run_loopback(3, [](Rank& r) {
    if (r.rank() != 1) return;
    EXPECT_THROW(Group(r.peers, {1, 3}), UsageError);
    EXPECT_THROW(Group(r.peers, {1, -1}), UsageError);
    EXPECT_THROW(Group(r.peers, {1, 2, 1}), UsageError);
    EXPECT_THROW(Group(r.peers, {0, 2}), UsageError);
    EXPECT_THROW(Group(r.peers, {}), UsageError);
    Group alone(r.peers, {1});
    EXPECT_THROW((void)alone.send(1, kOther, {}), UsageError);
    EXPECT_THROW((void)alone.send(0, kOther, {}), UsageError) << "that would be itself";
    EXPECT_TRUE(alone.dead_peers().empty());
  });
}

}  // namespace
}  // namespace lockstep
