#include "cluster/blocked_signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <latch>
#include <stop_token>
#include <thread>

namespace lockstep {
namespace {

int next_signal(BlockedSignals& signals) {
  pollfd readable{signals.fd(), POLLIN, 0};
  return poll(&readable, 1, 20'000) == 1 ? signals.take() : 0;
}

TEST(BlockedSignals, ArePolled) {
  BlockedSignals signals;
  EXPECT_EQ(signals.take(), 0);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(next_signal(signals), SIGTERM);
  EXPECT_EQ(signals.take(), 0);
}

// LibTorch and readers of pictures have threads before a launcher blocks its signals, and these
// would end the process.
TEST(BlockedSignals, ArePolledWhereAThreadWasThereBefore) {
  std::latch started(1);  // until then the C library blocks its signals
  const std::jthread earlier([&](const std::stop_token& stop) {
    started.count_down();
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  started.wait();
  BlockedSignals signals;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    kill(getpid(), signal);
    EXPECT_EQ(next_signal(signals), signal);
  }
}

}  // namespace
}  // namespace lockstep
