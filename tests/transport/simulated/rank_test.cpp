// What a rank finds in the simulated world: clock, background, lock, windows, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "transport/simulated/simulated.h"
#include "transport/simulated/star.h"

namespace lockstep {
namespace {

using testing::exchange, testing::kAlpha, testing::kOther, testing::kTag;
using testing::star;

TEST(SimulatedRank, MeetingsAndMovedBytesTakeTime) {
  auto cluster = star(3);
  cluster.ranks_per_host = 3;
  cluster.local_latency_s = 2e-6;
  cluster.local_bandwidth_bytes_per_s = 1e9;
  run_simulated(cluster, [](Rank& r) {
    const auto window = r.peers.open_window(64);
    r.clock.charge(1e-3 * r.rank());
    window->meet({});
    EXPECT_NEAR(r.clock.now(), 2e-3 + 2e-6, 1e-12);  // the last to come, and the latency
    if (r.rank() == 1) window->moved(0, kTag, 3'000'000, 1'000'000);
    window->meet({});
    EXPECT_NEAR(r.clock.now(), 2e-3 + 2e-6 + 4e-3 + 2e-6, 1e-12);
  });
}

TEST(SimulatedRank, WindowsEndAtTheHost) {
  auto cluster = star(4);
  cluster.ranks_per_host = 2;
  run_simulated(cluster, [](Rank& r) {
    const auto window = r.peers.open_window(64);
    EXPECT_FALSE(window->reaches_all());
    EXPECT_EQ(window->of(r.rank() ^ 1).size, 64u);
    EXPECT_EQ(window->of(r.rank() ^ 2).size, 0u);
  });
}

TEST(SimulatedRank, ChargingPassesTimeAndOthersGoOn) {
  run_simulated(star(2), [](Rank& r) {
    r.clock.charge(r.rank() == 0 ? 1.5 : 0.25);
    EXPECT_EQ(r.clock.now(), r.rank() == 0 ? 1.5 : 0.25);
  });
}

TEST(SimulatedRank, BackgroundJobsRunBesideTheRank) {
  run_simulated(star(2), [](Rank& r) {
    const std::size_t bytes = 200'000'000;  // 0.1 s
    const auto job = r.background.post([&](Transport& lane) {
      if (lane.rank() == 0) lane.wait(lane.send(1, kTag, ConstBytes(nullptr, bytes)));
      if (lane.rank() == 1) lane.wait(lane.recv(0, kTag, {nullptr, bytes}));
    });
    r.clock.charge(0.08);
    r.background.wait(job);
    EXPECT_NEAR(r.clock.now(), kAlpha + 0.1, 1e-9);
  });
}

TEST(SimulatedRank, TheLockKeepsRankAndBackgroundApart) {
  run_simulated(star(1), [](Rank& r) {
    double locked = 0;
    std::uint64_t job = 0;
    {
      std::lock_guard lock(r.lock);
      job = r.background.post([&](Transport&) {
        std::lock_guard other(r.lock);
        locked = r.clock.now();
        r.clock.charge(1);
      });
      r.clock.charge(2);
    }
    EXPECT_EQ(r.clock.now(), 2);
    r.background.wait(job);
    EXPECT_EQ(locked, 2);
    EXPECT_EQ(r.clock.now(), 3);
  });
}

TEST(SimulatedRank, ASentBufferMayBeWrittenOnceTheSendHasEnded) {
  run_simulated(star(2), [](Rank& r) {
    int value = 7;
    if (r.rank() == 0) {
      r.peers.wait(r.peers.send(1, kTag, bytes_of(value)));
      value = 8;
      r.peers.wait(r.peers.send(1, kOther, {}));
    } else {
      r.peers.wait(r.peers.recv(0, kOther, {}));
      int got = 0;
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
      EXPECT_EQ(got, 7);
    }
  });
}

TEST(SimulatedRank, AShortMessageDoesNotOvertakeALongOneOfItsTag) {
  run_simulated(star(2), [](Rank& r) {
    if (r.rank() == 0) {
      Pending slow = r.peers.send(1, kTag, ConstBytes(nullptr, 2'000'000'000));
      r.peers.wait(r.peers.send(1, kTag, ConstBytes(nullptr, 1)));
      r.peers.wait(slow);
    } else {
      Pending one = r.peers.recv(0, kTag, {nullptr, 2'000'000'000});
      Pending two = r.peers.recv(0, kTag, {nullptr, 2'000'000'000});
      const Request both[] = {one.request(), two.request()};
      const Ending first = r.peers.wait_any(both, r.peers.patience());
      EXPECT_EQ(first.index, 0u);
      EXPECT_EQ(first.arrival.bytes, 2'000'000'000u);
      EXPECT_EQ(r.peers.wait(two).bytes, 1u);
    }
  });
}

TEST(SimulatedRank, PollingPassesTime) {
  run_simulated(star(2), [](Rank& r) {
    if (r.rank() == 1) {
      r.clock.charge(1e-3);
      exchange(r, 1, 0, 10);
      return;
    }
    Pending q = r.peers.recv(1, kTag, {nullptr, 10});
    while (!r.peers.test(q.request())) {
    }
    EXPECT_NEAR(r.clock.now(), 1e-3 + kAlpha, 3e-6);
  });
}

}  // namespace
}  // namespace lockstep
