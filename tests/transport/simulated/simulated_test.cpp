// What the simulated world promises beyond the transport contract: its times, to the bit.
// One simulation a process, so each test runs one, and those that compare several fork.
#include "transport/simulated/simulated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "core/values.h"
#include "transport/simulated/star.h"

namespace lockstep {
namespace {

using testing::exchange, testing::kAlpha, testing::kBandwidth, testing::kOther, testing::kTag;
using testing::star;

// Sum by a ring of messages: m - 1 steps that reduce, m - 1 that hand the sums round.
void ring(Rank& r, Values v) {
  const int m = r.size();
  const int left = (r.rank() + m - 1) % m, right = (r.rank() + 1) % m;
  for (int step = 0; step < 2 * (m - 1); ++step) {
    const Values out = v.part(chunk(v.count(), m, (r.rank() - step + 2 * m) % m));
    const Values in = v.part(chunk(v.count(), m, (r.rank() - step - 1 + 2 * m) % m));
    Pending received = r.peers.recv(left, kTag, in.bytes(), step < m - 1 ? v.combine() : nullptr);
    Pending sent = r.peers.send(right, kTag, out.bytes());
    r.peers.wait(received);
    r.peers.wait(sent);
  }
}

double ring_formula(int m, double bytes) { return 2 * (m - 1) * (kAlpha + bytes / m / kBandwidth); }

// What `simulate` returns in a process of its own.
std::vector<double> in_child(const std::function<std::vector<double>()>& simulate) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto numbers = simulate();
    const auto size = static_cast<ssize_t>(numbers.size() * sizeof(double));
    _exit(write(ends[1], numbers.data(), size) == size ? 0 : 1);
  }
  close(ends[1]);
  std::vector<double> numbers;
  double x = 0;
  while (read(ends[0], &x, sizeof x) == sizeof x) numbers.push_back(x);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return numbers;
}

double peak_rss_bytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

TEST(Simulated, AMessageTakesLatencyAndBytesOverBandwidth) {
  run_simulated(star(2), [](Rank& r) {
    for (const std::size_t bytes : {0ul, 1ul, 4ul, 1000ul, 1'000'000ul, 3'000'000'000ul}) {
      const double start = r.clock.now();
      exchange(r, 0, 1, bytes);
      const double due = kAlpha + static_cast<double>(bytes) / kBandwidth;
      EXPECT_NEAR(r.clock.now() - start, due, 1e-9 * due) << bytes;
    }
  });
}

TEST(Simulated, RanksOfOneHostUseLocalMemory) {
  auto cluster = star(4);
  cluster.ranks_per_host = 2;
  cluster.local_latency_s = 3e-6;
  cluster.local_bandwidth_bytes_per_s = 8e9;
  run_simulated(cluster, [](Rank& r) {
    EXPECT_EQ(r.peers.host_of(r.rank()), r.rank() / 2);
    exchange(r, 0, 1, 8'000'000);
    exchange(r, 2, 3, 16'000'000);
    EXPECT_NEAR(r.clock.now(), 3e-6 + (r.rank() < 2 ? 1e-3 : 2e-3), 1e-12);
  });
}

TEST(Simulated, FlowsShareALink) {
  run_simulated(star(3), [](Rank& r) {
    if (r.rank() < 2) {
      exchange(r, r.rank(), 2, 10'000'000);
    } else {
      Pending one = r.peers.recv(0, kTag, {nullptr, 10'000'000});
      r.peers.wait(r.peers.recv(1, kTag, {nullptr, 10'000'000}));
      r.peers.wait(one);
    }
    EXPECT_NEAR(r.clock.now(), kAlpha + 2 * 10e6 / kBandwidth, 1e-9);
  });
}

TEST(Simulated, MessagesToOnePeerGoOneAfterTheOther) {
  constexpr std::size_t kBytes = 10'000'000;
  run_simulated(star(2), [](Rank& r) {
    std::vector<Pending> open;
    for (int i = 0; i < 3; ++i)
      open.push_back(r.rank() == 0 ? r.peers.send(1, kTag, ConstBytes(nullptr, kBytes))
                                   : r.peers.recv(0, kTag, {nullptr, kBytes}));
    for (int i = 0; i < 3; ++i) {
      r.peers.wait(open[i]);
      EXPECT_NEAR(r.clock.now(), kAlpha + (i + 1) * kBytes / kBandwidth, 1e-9) << i;
    }
  });
}

TEST(Simulated, BothDirectionsOfALineAreFree) {
  run_simulated(star(2), [](Rank& r) {
    Pending in = r.peers.recv(1 - r.rank(), kTag, {nullptr, 10'000'000});
    r.peers.wait(r.peers.send(1 - r.rank(), kTag, ConstBytes(nullptr, 10'000'000)));
    r.peers.wait(in);
    EXPECT_NEAR(r.clock.now(), kAlpha + 10e6 / kBandwidth, 1e-9);
  });
}

TEST(Simulated, AnOversubscribedTreeSlowsFlowsBetweenRacks) {
  auto cluster = star(8);
  cluster.hosts_per_rack = 4;
  cluster.oversubscription = 4;
  run_simulated(cluster, [](Rank& r) {
    const std::size_t bytes = 20'000'000;
    const double alone = kAlpha + static_cast<double>(bytes) / kBandwidth;
    exchange(r, r.rank() / 2 * 2, r.rank() / 2 * 2 + 1, bytes);  // within the rack
    EXPECT_NEAR(r.clock.now(), alone, 1e-9);
    exchange(r, r.rank() % 4, r.rank() % 4 + 4,
             bytes);  // four flows on one line of one flow's rate
    EXPECT_NEAR(r.clock.now(), alone + kAlpha + 4.0 * bytes / kBandwidth, 1e-8);
  });
}

class SimulatedRing : public ::testing::TestWithParam<std::pair<int, std::size_t>> {};

TEST_P(SimulatedRing, TakesTheFormulasTime) {
  const auto [m, count] = GetParam();
  std::vector<double> ended(m);
  run_simulated(star(m), [&](Rank& r) {
    ring(r, Values::hollow(count, Type::fp32));
    ended[r.rank()] = r.clock.now();
  });
  const double due = ring_formula(m, 4.0 * static_cast<double>(count));
  EXPECT_NEAR(*std::ranges::max_element(ended), due, 0.02 * due);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SimulatedRing,
                         ::testing::Values(std::pair{2, 1000ul}, std::pair{3, 1'000'001ul},
                                           std::pair{8, 1'000ul}, std::pair{8, 25'000'000ul},
                                           std::pair{100, 25'000'000ul}));
#ifndef __SANITIZE_THREAD__  // actors are threads then, and this takes minutes
INSTANTIATE_TEST_SUITE_P(ManyRanks, SimulatedRing, ::testing::Values(std::pair{512, 25'000'000ul}));
#endif

TEST(Simulated, RealValuesAreSummed) {
  const int m = 5;
  run_simulated(star(m), [&](Rank& r) {
    std::vector<double> v(1003);
    std::iota(v.begin(), v.end(), r.rank());
    ring(r, Values(v.data(), v.size(), Type::fp64));
    for (std::size_t i = 0; i < v.size(); ++i)
      ASSERT_EQ(v[i], m * static_cast<double>(i) + m * (m - 1) / 2);
  });
}

// A busy little world: uneven work, any-source receives, background jobs, random choices.
std::vector<double> busy_times(std::uint64_t seed) {
  auto cluster = star(9);
  cluster.ranks_per_host = 2;
  cluster.seed = seed;
  std::vector<double> times;
  run_simulated(cluster, [&](Rank& r) {
    Rng random = r.random(purpose_of("test"));
    const auto job = r.background.post([&](Transport& lane) {
      const int peer = r.rank() ^ 1;
      if (peer >= lane.size()) return;
      Pending in = lane.recv(peer, kTag, {nullptr, 5'000'000});
      lane.wait(lane.send(peer, kTag, ConstBytes(nullptr, 5'000'000)));
      lane.wait(in);
    });
    for (int i = 0; i < 20; ++i) {
      r.clock.charge(1e-3 * random.uniform());
      if (r.rank() == 0) {
        for (int p = 1; p < r.size(); ++p) {
          std::optional<Arrival> a;
          while (!a) a = r.peers.probe(kAnyRank, kTag);
          r.peers.wait(r.peers.recv(a->from, kTag, {nullptr, 1 << 20}));
          times.push_back(r.clock.now() + a->from);
        }
      } else {
        r.peers.wait(r.peers.send(0, kTag, ConstBytes(nullptr, random.below(1 << 20))));
      }
    }
    r.background.wait(job);
    times.push_back(r.clock.now());
  });
  return times;
}

TEST(Simulated, TheSameSeedGivesTheSameTimesToTheBit) {
  const auto first = in_child([] { return busy_times(1); });
  EXPECT_EQ(first.size(), 20u * 8 + 9);
  EXPECT_EQ(first, in_child([] { return busy_times(1); }));
  EXPECT_NE(first, in_child([] { return busy_times(2); }));
}

TEST(Simulated, AProbeOfAnyRankFindsTheFirstToArrive) {
  run_simulated(star(4), [](Rank& r) {
    if (r.rank() > 0) {
      r.clock.charge(1e-3 * (4 - r.rank()));
      exchange(r, r.rank(), 0, 100);
    } else {
      r.clock.charge(1);
      for (const int from : {3, 2, 1}) {
        EXPECT_EQ(r.peers.probe(kAnyRank, kTag)->from, from);
        r.peers.wait(r.peers.recv(from, kTag, {nullptr, 100}));
      }
    }
  });
}

// What 64 GB of values may cost. The thread sanitizer keeps a stack and a shadow for each actor.
#ifdef __SANITIZE_THREAD__
constexpr double kNoMemoryBytes = 2e9;
#else
constexpr double kNoMemoryBytes = 100e6;
#endif

TEST(Simulated, HollowValuesCostNoMemory) {
  const double before = peak_rss_bytes();
  run_simulated(star(64), [](Rank& r) { ring(r, Values::hollow(250'000'000, Type::fp32)); });
  EXPECT_LT(peak_rss_bytes() - before, kNoMemoryBytes);
}

TEST(Simulated, HollowWindowsCostNoMemory) {
  auto cluster = star(8);
  cluster.ranks_per_host = 8;
  cluster.hollow_windows = true;
  const double before = peak_rss_bytes();
  run_simulated(cluster, [](Rank& r) {
    const auto window = r.peers.open_window(1'000'000'000);
    EXPECT_TRUE(window->mine().hollow());
    EXPECT_EQ(window->of((r.rank() + 1) % 8).size, 1'000'000'000u);
  });
  EXPECT_LT(peak_rss_bytes() - before, kNoMemoryBytes);
}

}  // namespace
}  // namespace lockstep
