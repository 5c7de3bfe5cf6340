// What is particular to shared memory: processes that are killed, and what they leave behind.
#include "transport/shm/shm.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>

#include "core/rng.h"
#include "processes.h"
#include "transport/real_rank.h"
#include "worlds.h"

namespace lockstep {
namespace {

using testing::Processes;

constexpr Tag kTag{Purpose::gradients, 1};

// Memory that forked ranks share with the test, for introductions and counting.
struct Board {
  std::atomic<int> leader_pid{0}, leader_fd{0}, joined{0};
  std::atomic<long> rounds{0};
};

class ShmProcesses : public ::testing::Test {
 protected:
  ShmProcesses()
      : board_(*new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board) {}

  // Joins, runs `rounds`, and returns 100 + the rank a TransportError names (dead), 1 for other
  // ends.
  int run_rank(int rank, int ranks, const std::function<void(Transport&)>& rounds) {
    Deaths deaths(ranks);
    const ShmOptions options{rank, std::vector<int>(ranks, 0), 30};
    std::shared_ptr<ShmHost> host;
    if (rank == 0) {
      host = std::make_shared<ShmHost>(options, deaths);
      board_.leader_fd = host->fd();
      board_.leader_pid = getpid();
    } else {
      while (board_.leader_pid == 0) std::this_thread::yield();
      host = std::make_shared<ShmHost>(options, deaths, board_.leader_pid, board_.leader_fd);
    }
    const auto lane = open_shm(host, 0);
    ++board_.joined;
    while (board_.joined < ranks) std::this_thread::yield();
    try {
      rounds(*lane);
    } catch (const TransportError& e) {
      return e.kind() == TransportError::Kind::dead ? 100 + e.peer() : 1;
    }
    return 1;
  }

  // Kills a rank after a random number of rounds; every survivor must name it.
  void kill_one(int ranks, std::uint64_t seed, const std::function<void(Transport&)>& rounds) {
    board_.leader_pid = 0;
    board_.joined = 0;
    board_.rounds = 0;
    Rng random(seed, 0, purpose_of("kill"));
    Processes processes(ranks, [&](int rank) { return run_rank(rank, ranks, rounds); });
    const long when = 1 + static_cast<long>(random.below(2000));
    while (board_.rounds < when) std::this_thread::yield();
    const int victim = static_cast<int>(random.below(ranks));
    processes.kill(victim);
    ASSERT_TRUE(processes.wait(60)) << "a survivor of rank " << victim << " still waits";
    for (int r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(processes.result(r), 100 + victim) << "told by rank " << r;
    }
  }

  Board& board_;
};

TEST_F(ShmProcesses, SurvivorsOfAKillNameTheDead) {
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    kill_one(4, seed, [&](Transport& t) {
      std::vector<int> mine(10'000, t.rank()), theirs(10'000);
      const int next = (t.rank() + 1) % t.size(), previous = (t.rank() + t.size() - 1) % t.size();
      for (;;) {
        Pending in = t.recv(previous, kTag, {(std::byte*)theirs.data(), theirs.size() * 4});
        t.wait(t.send(next, kTag, {mine.data(), mine.size() * 4}));
        t.wait(in);
        ++board_.rounds;
      }
    });
}

TEST_F(ShmProcesses, SurvivorsOfAKillInAMeetingNameTheDead) {
  for (std::uint64_t seed = 100; seed < 110; ++seed)
    kill_one(3, seed, [&](Transport& t) {
      const auto window = t.open_window(4096);
      for (;;) {
        window->meet({});
        ++board_.rounds;
      }
    });
}

TEST_F(ShmProcesses, NothingIsLeftInTheFileSystem) {
  const auto files = [] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator("/dev/shm")) ++count;
    return count;
  };
  const std::size_t before = files();
  kill_one(3, 7, [&](Transport& t) {
    const auto window = t.open_window(1 << 20);
    for (;;) {
      window->meet({});
      ++board_.rounds;
    }
  });
  EXPECT_EQ(files(), before);
}

TEST(Shm, ASleepingWaitUsesNoProcessor) {
  run_shm(2, [](Rank& r) {
    int got = 0;
    if (r.rank() == 0) {
      rusage before, after;
      getrusage(RUSAGE_THREAD, &before);
      EXPECT_THROW(r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)), {r.peers.now() + 0.5}),
                   TransportError);
      getrusage(RUSAGE_THREAD, &after);
      const auto us = [](const rusage& u) {
        return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + u.ru_utime.tv_usec +
               u.ru_stime.tv_usec;
      };
      EXPECT_LT(us(after) - us(before), 100'000);  // of 500,000
      r.peers.wait(r.peers.send(1, kTag, bytes_of(got)));
    } else {
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(got)));
    }
  });
}

TEST(Shm, OtherHostsAreOutOfReach) {
  FabricOptions options;
  options.ranks_per_host = 1;
  run_shm(
      2,
      [](Rank& r) {
        int value = 0;
        EXPECT_EQ(r.peers.host_of(1), 1);
        EXPECT_THROW((void)r.peers.send(1 - r.rank(), kTag, bytes_of(value)), UsageError);
      },
      options);
}

}  // namespace
}  // namespace lockstep
