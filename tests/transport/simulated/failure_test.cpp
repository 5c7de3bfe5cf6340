// How the simulated world fails: deadlines, deaths, errors, misuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "transport/simulated/simulated.h"
#include "transport/simulated/star.h"

namespace lockstep {
namespace {

using testing::error_of, testing::kOther, testing::kTag;
using testing::star;

TEST(SimulatedFailure, AWaitForNobodyEndsAtItsDeadline) {
  auto cluster = star(2);
  cluster.patience_s = 1e9;
  run_simulated(cluster, [](Rank& r) {
    if (r.rank() == 1) return r.clock.charge(2e9);
    int got = 0;
    const auto e = error_of([&] { r.peers.wait(r.peers.recv(1, kTag, bytes_of(got))); });
    EXPECT_EQ(e.kind(), TransportError::Kind::deadline);
    EXPECT_EQ(e.peer(), 1);
    EXPECT_EQ(r.clock.now(), 1e9);
  });
}

TEST(SimulatedFailure, AWorldThatCantGoOnSaysWhoWaitsForWhat) {
  auto cluster = star(2);
  cluster.patience_s = std::numeric_limits<double>::infinity();
  try {
    run_simulated(cluster, [](Rank& r) {
      int got = 0;
      if (r.rank() == 0) r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)));
      r.lock.lock();
      r.lock.lock();
    });
    FAIL() << "no error";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("rank 0 waits for messages"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("rank 1 waits for its lock"));
  }
}

TEST(SimulatedFailure, ADeathIsNamedWhereverItIsWaitedFor) {
  auto cluster = star(5);
  cluster.ranks_per_host = 5;
  cluster.deaths = {{1, 0.5}};
  const auto expect_death = [](Rank& r, const std::function<void()>& f) {
    const auto e = error_of(f);
    EXPECT_EQ(e.kind(), TransportError::Kind::dead) << e.what();
    EXPECT_EQ(e.peer(), 1) << e.what();
    EXPECT_NEAR(r.clock.now(), 0.5, 1e-3);
  };
  bool outlived = false;
  run_simulated(cluster, [&](Rank& r) {
    const auto window = r.peers.open_window(8);
    switch (r.rank()) {
      case 0:
        return expect_death(r, [&] { r.peers.wait(r.peers.recv(1, kTag, {nullptr, 8})); });
      case 1:
        r.background.post([&](Transport& lane) { lane.wait(lane.recv(0, kTag, {nullptr, 8})); });
        r.clock.charge(1);
        outlived = true;
        return;
      case 2:
        return expect_death(r, [&] { window->meet({}); });
      case 3:  // a send under way
        return expect_death(r, [&] {
          r.peers.wait(r.peers.send(1, kTag, ConstBytes(nullptr, 1'000'000'000'000)));
        });
      case 4:  // the news comes through rank 0, which leaves
        expect_death(r, [&] { r.peers.wait(r.peers.recv(0, kTag, {nullptr, 8})); });
        EXPECT_THAT(r.peers.dead_peers(), ::testing::ElementsAre(1));
    }
  });
  EXPECT_FALSE(outlived);
}

TEST(SimulatedFailure, WhatTheDeadHadUnderWayIsLostAndWhatArrivedIsNot) {
  auto cluster = star(2);
  cluster.deaths = {{0, 0.5}};
  run_simulated(cluster, [](Rank& r) {
    int value = 6;
    if (r.rank() == 0) {
      r.peers.wait(r.peers.send(1, kTag, bytes_of(value)));
      r.peers.wait(r.peers.send(1, kOther, ConstBytes(nullptr, 1'000'000'000'000)));
    } else {
      r.clock.charge(1);
      int got = 0;
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
      EXPECT_EQ(got, 6);
      const auto e = error_of([&] {
        r.peers.wait(r.peers.recv(0, kOther, {nullptr, 1'000'000'000'000}));
      });
      EXPECT_EQ(e.kind(), TransportError::Kind::dead);
      EXPECT_EQ(r.clock.now(), 1);
    }
  });
}

// As over a real transport, where it is in a ring or a socket by then.
TEST(SimulatedFailure, WhatALeavingRankGaveUpOnItsWayArrives) {
  run_simulated(star(2), [](Rank& r) {
    int value = 6, got = 0;
    if (r.rank() == 0) {
      r.peers.send(1, kTag, bytes_of(value)).give_up();
      value = 7;
      return;
    }
    r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
    EXPECT_EQ(got, 6);
    const auto e = error_of([&] { r.peers.wait(r.peers.recv(0, kTag, bytes_of(got))); });
    EXPECT_EQ(e.kind(), TransportError::Kind::left);
  });
}

TEST(SimulatedFailure, WhatADeadRankHadGivenUpIsLost) {
  auto cluster = star(2);
  cluster.deaths = {{0, 0.5}};
  run_simulated(cluster, [](Rank& r) {
    if (r.rank() == 0) {
      r.peers.send(1, kTag, ConstBytes(nullptr, 1'000'000'000'000)).give_up();
      r.clock.charge(1);
      return;
    }
    const auto e = error_of([&] {
      r.peers.wait(r.peers.recv(0, kTag, {nullptr, 1'000'000'000'000}));
    });
    EXPECT_EQ(e.kind(), TransportError::Kind::dead);
    EXPECT_EQ(r.clock.now(), 0.5);
    r.clock.charge(1e6);
    EXPECT_FALSE(r.peers.probe(0, kTag));
  });
}

TEST(SimulatedFailure, AnErrorMayBeHandledWhileTimePasses) {
  run_simulated(star(4), [](Rank& r) {
    for (int i = 0; i < 3; ++i) {
      const std::string mine = fmt::format("rank {} round {}", r.rank(), i);
      try {
        throw UsageError(mine);
      } catch (const UsageError& e) {
        r.clock.charge(1e-3 * (r.rank() + 1));  // others throw and catch meanwhile
        EXPECT_EQ(e.what(), mine);
        try {
          throw;
        } catch (const UsageError& again) {
          EXPECT_EQ(again.what(), mine);
        }
      }
      EXPECT_EQ(std::uncaught_exceptions(), 0);
    }
  });
}

TEST(SimulatedFailure, TheFirstErrorInVirtualTimeIsThrown) {
  EXPECT_THROW(run_simulated(star(3),
                             [](Rank& r) {
                               r.clock.charge(3 - r.rank());
                               if (r.rank() == 2) throw UsageError("planted");
                               throw InternalError("later");
                             }),
               UsageError);
}

TEST(SimulatedFailure, ASecondSimulationIsRefused) {
  run_simulated(star(1), [](Rank&) {});
  EXPECT_THROW(run_simulated(star(1), [](Rank&) {}), UsageError);
}

TEST(SimulatedFailure, ImpossibleClustersAreRefused) {
  const auto refused = [](const std::function<void(SimulatedCluster&)>& spoil) {
    SimulatedCluster cluster = star(2);
    spoil(cluster);
    EXPECT_THROW(run_simulated(cluster, [](Rank&) {}), UsageError);
  };
  refused([](auto& c) { c.ranks = 0; });
  refused([](auto& c) { c.ranks_per_host = 0; });
  refused([](auto& c) { c.bandwidth_bytes_per_s = 0; });
  refused([](auto& c) { c.latency_s = -1; });
  refused([](auto& c) { c.oversubscription = 0; });
  refused([](auto& c) { c.deaths = {{2, 1.0}}; });
}

}  // namespace
}  // namespace lockstep
