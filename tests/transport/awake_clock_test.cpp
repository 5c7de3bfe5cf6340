// A process that stood still blames no peer for it.
#include "transport/awake_clock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eventually.h"
#include "worlds.h"

namespace lockstep {
namespace {

TEST(AwakeClock, CountsLittleOfAGapBetweenTwoLooks) {
  AwakeClock clock(100);
  EXPECT_DOUBLE_EQ(clock.now(100.25), 0.25);
  EXPECT_DOUBLE_EQ(clock.now(100.75), 0.75);
  EXPECT_DOUBLE_EQ(clock.now(4000), 0.75 + AwakeClock::kMostSeconds);
  EXPECT_DOUBLE_EQ(clock.now(4000.5), 1.25 + AwakeClock::kMostSeconds);
}

TEST(Countdown, EndsWhenItsTimeIsOver) {
  Countdown time(0.05);
  EXPECT_TRUE(eventually([&] { return time.left() <= 0; }));
  EXPECT_EQ(time.nap(), 0);
  EXPECT_EQ(Countdown(1e9).nap(), AwakeClock::kLookSeconds);
}

// All ranks of a job are stopped together, as by Ctrl-Z, until they have waited for each other for
// too long.
class StoppedJob : public ::testing::TestWithParam<testing::World> {
 protected:
  static constexpr double kSettle = 1;    // for rank 0 to go from its moment to its sleep
  static constexpr double kGlance = 0.1;  // to look at the clock before there is anything to see
  // Of a stop kMostSeconds count; what is left, most of a second, is for a busy machine.
  static constexpr double kPatience = kSettle + AwakeClock::kMostSeconds + 1;

  // In a process of its own, which is stopped when rank 0 has come to its `moment`; rank 1 stays in
  // its own until long after. The process's wait status.
  int job(const std::function<void(Rank&, const std::function<void()>& moment)>& act) {
    int waits[2], told[2];
    EXPECT_EQ(pipe(waits) + pipe(told), 0);
    const pid_t pid = fork();
    if (pid == 0) _exit(run(waits[1], told[0], act));
    char byte = 0;
    EXPECT_EQ(read(waits[0], &byte, 1), 1);
    pass(kSettle);
    kill(pid, SIGSTOP);
    pass(kPatience - kSettle + kGlance);  // so that by the wall's clock it is too late
    kill(pid, SIGCONT);
    pass(kGlance);
    EXPECT_EQ(write(told[1], "x", 1), 1);
    int status = 0;
    waitpid(pid, &status, 0);
    for (const int fd : {waits[0], waits[1], told[0], told[1]}) close(fd);
    return status;
  }

 private:
  static void pass(double seconds) { usleep(static_cast<useconds_t>(seconds * 1e6)); }

  static int run(int waits, int told,
                 const std::function<void(Rank&, const std::function<void()>&)>& act) {
    FabricOptions options;
    options.patience_seconds = kPatience;
    try {
      GetParam().run(
          2,
          [&](Rank& rank) {
            act(rank, [&] {
              char byte = 0;
              (void)!(rank.rank() == 0 ? write(waits, &byte, 1) : read(told, &byte, 1));
            });
          },
          options);
    } catch (const std::exception& e) {
      fprintf(stderr, "%s\n", e.what());
      return 1;
    }
    return 0;
  }
};

std::vector<testing::World> real_worlds() {
  std::vector<testing::World> real = testing::worlds();
  std::erase_if(real, [](const testing::World& w) { return w.name == "simulated"; });
  return real;
}

INSTANTIATE_TEST_SUITE_P(Worlds, StoppedJob, ::testing::ValuesIn(real_worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(StoppedJob, GoesOnWhenAMessageComes) {
  EXPECT_EQ(job([](Rank& rank, const auto& moment) {
              int word = 7;
              const Tag tag{Purpose::setup, 1};
              moment();
              rank.peers.wait(rank.rank() == 0 ? rank.peers.recv(1, tag, bytes_of(word))
                                               : rank.peers.send(0, tag, bytes_of(word)));
            }),
            0);
}

TEST_P(StoppedJob, GoesOnWhenAllMeet) {
  EXPECT_EQ(job([](Rank& rank, const auto& moment) {
              const auto window = rank.peers.open_window(64);
              moment();
              if (window->reaches_all()) window->meet({});
            }),
            0);
}

}  // namespace
}  // namespace lockstep
