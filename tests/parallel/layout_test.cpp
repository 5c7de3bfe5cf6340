// Layouts are maps that go both ways, whatever their kind and size.
#include "parallel/layout.h"

#include <gmock/gmock.h>

#include <set>

#include "parallel/refusal.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

struct Named {
  std::string name;
  Layout layout;
  int roles_a_rank;
};

std::vector<Named> layouts() {
  std::vector<Named> all;
  const auto add = [&](const char* kind, Layout layout, int roles) {
    all.push_back({fmt::format("{} {}x{}", kind, layout.replicas(), layout.stages()),
                   std::move(layout), roles});
  };
  for (const int replicas : {1, 2, 3, 4, 8})
    for (const int stages : {1, 2, 3, 4, 6, 12}) {
      add("grid", Layout::grid(replicas, stages), 1);
      for (const int workers : {1, 2, 3, 6})
        if (stages % workers == 0)
          add("interleaved", Layout::interleaved(replicas, stages, workers), stages / workers);
      if (stages % 2 == 0) add("folded", Layout::folded(replicas, stages), 2);
      if (replicas % 2 == 0) add("gems", Layout::gems(replicas, stages), 2);
    }
  return all;
}

TEST(Layout, EveryRoleIsOnOneRank) {
  for (const auto& [name, layout, roles_a_rank] : layouts()) {
    SCOPED_TRACE(name);
    int roles = 0;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      EXPECT_EQ(std::ssize(layout.roles_of(rank)), roles_a_rank);
      for (const Role role : layout.roles_of(rank)) {
        EXPECT_EQ(layout.rank_of(role), rank);
        ++roles;
      }
    }
    EXPECT_EQ(roles, layout.replicas() * layout.stages());
    for (int replica = 0; replica < layout.replicas(); ++replica)
      for (int stage = 0; stage < layout.stages(); ++stage) {
        const Role role{replica, stage};
        const auto roles = layout.roles_of(layout.rank_of(role));
        EXPECT_EQ(std::ranges::count(roles, role), 1);
      }
  }
}

TEST(Layout, EqualsAreDistinctRanksThatHoldTheStageInTheOrderOfReplicas) {
  for (const auto& [name, layout, roles_a_rank] : layouts()) {
    SCOPED_TRACE(name);
    for (int stage = 0; stage < layout.stages(); ++stage) {
      const std::vector<int> equals = layout.equals({0, stage});
      EXPECT_EQ(std::set<int>(equals.begin(), equals.end()).size(), equals.size());
      int copies = 0;  // of the stage, on all of them together
      for (const int rank : equals)
        copies += std::ranges::count(layout.roles_of(rank), stage, &Role::stage);
      EXPECT_EQ(copies, layout.replicas());
      for (int replica = 0; replica < layout.replicas(); ++replica) {
        // Ranks have the same number of copies each, so that all count alike in an average.
        EXPECT_EQ(equals[replica * equals.size() / layout.replicas()],
                  layout.rank_of({replica, stage}));
        EXPECT_EQ(layout.equals({replica, stage}), equals);
      }
    }
  }
}

TEST(Layout, StreamsAreDistinctAndThoseOfTheRankWhereItHasOneRole) {
  for (const auto& [name, layout, roles_a_rank] : layouts()) {
    SCOPED_TRACE(name);
    std::set<int> streams;
    for (int rank = 0; rank < layout.ranks(); ++rank)
      for (const Role role : layout.roles_of(rank)) {
        EXPECT_TRUE(streams.insert(layout.stream_of(role)).second);
        if (roles_a_rank == 1) {
          EXPECT_EQ(layout.stream_of(role), rank);
        }
      }
  }
}

TEST(Layout, OneStageOrOneReplicaIsTrivial) {
  const Layout replicas = Layout::grid(5, 1), stages = Layout::grid(1, 5);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_THAT(replicas.roles_of(rank), ElementsAre(Role{rank, 0}));
    EXPECT_THAT(replicas.equals({rank, 0}), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(replicas.stream_of({rank, 0}), rank);
    EXPECT_THAT(stages.roles_of(rank), ElementsAre(Role{0, rank}));
    EXPECT_THAT(stages.equals({0, rank}), ElementsAre(rank));
  }
  EXPECT_EQ(Layout::interleaved(3, 4, 4), Layout::grid(3, 4));
}

TEST(Layout, RolesAreWhereTheirSchedulesExpectThem) {
  const Layout grid = Layout::grid(2, 3);
  EXPECT_EQ(grid.rank_of({1, 2}), 5);
  EXPECT_THAT(grid.equals({0, 1}), ElementsAre(1, 4));

  const Layout interleaved = Layout::interleaved(2, 4, 2);
  EXPECT_THAT(interleaved.roles_of(3), ElementsAre(Role{1, 1}, Role{1, 3}));

  const Layout folded = Layout::folded(2, 6);
  EXPECT_EQ(folded.ranks(), 6);
  EXPECT_THAT(folded.roles_of(4), ElementsAre(Role{1, 1}, Role{1, 4}));

  const Layout gems = Layout::gems(4, 4);
  EXPECT_EQ(gems.ranks(), 8);
  EXPECT_THAT(gems.roles_of(1), ElementsAre(Role{0, 1}, Role{1, 2}));
  EXPECT_THAT(gems.roles_of(4), ElementsAre(Role{2, 0}, Role{3, 3}));
  EXPECT_THAT(gems.equals({1, 1}), ElementsAre(1, 2, 5, 6));

  const Layout odd = Layout::gems(4, 3);
  EXPECT_EQ(odd.ranks(), 6);
  EXPECT_THAT(odd.roles_of(1), ElementsAre(Role{0, 1}, Role{1, 1}));
  EXPECT_THAT(odd.equals({3, 1}), ElementsAre(1, 4));
  EXPECT_THAT(odd.equals({0, 0}), ElementsAre(0, 2, 3, 5));
}

TEST(Layout, RefusesInOneSentence) {
  EXPECT_EQ(refusal_of([] { Layout::grid(0, 2); }),
            "a grid layout of 0 replicas with 2 stages: there must be 1 or more of each");
  EXPECT_EQ(refusal_of([] { Layout::interleaved(1, 5, 2); }),
            "an interleaved layout of 1 replicas with 5 stages: every worker must hold the same "
            "number of stages");
  EXPECT_EQ(refusal_of([] { Layout::folded(1, 3); }),
            "a folded layout of 1 replicas with 3 stages: the number of stages must be even, since "
            "every worker holds two");
  EXPECT_EQ(refusal_of([] { Layout::gems(3, 2); }),
            "a GEMS layout of 3 replicas with 2 stages: the number of replicas must be even, since "
            "they share workers in pairs");
  const Layout grid = Layout::grid(2, 2);
  EXPECT_EQ(refusal_of([&] {
              (void)grid.rank_of({2, 0});
            }),
            "stage 0 of replica 2: there are 2 replicas with 2 stages each, counted from 0");
  EXPECT_EQ(refusal_of([&] { (void)grid.roles_of(4); }), "rank 4 of a layout: ranks are 0..3");
}

}  // namespace
}  // namespace lockstep
