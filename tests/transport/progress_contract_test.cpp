// What moves when: long messages only while both ends are inside calls, and what another thread can
// tell one that waits.
#include <atomic>
#include <thread>

#include "transport/contract.h"

namespace lockstep::testing {
namespace {

class ProgressContract : public TransportContract {
 protected:
  // Computes until that is so, in whatever time there is.
  template <class F>
  static void compute_until(Rank& r, F&& so) {
    while (!so()) {
      r.clock.charge(1e-3);
      std::this_thread::yield();
    }
  }
};

// Of all but loopback, and what stands on it.
class BoundedBuffers : public ProgressContract {};

constexpr std::size_t kLong = 4 << 20;  // numbers: more than any socket or ring holds
constexpr int kLooks = 200;

TEST_P(BoundedBuffers, ALongMessageStandsStillWhileItsReceiverComputes) {
  std::atomic<bool> looked = false;
  run(2, [&](Rank& r) {
    std::vector<float> numbers(kLong, static_cast<float>(1 + r.rank()));
    int word = 0;
    if (r.rank() == 0) {
      Pending sent = r.peers.send(1, kTag, raw(numbers));
      for (int i = 0; i < kLooks; ++i) {
        EXPECT_FALSE(r.peers.test(sent.request())) << i;
        r.clock.charge(1e-3);
      }
      looked = true;
      r.peers.wait(sent);  // while the other waits for something else
      r.peers.wait(r.peers.send(1, kOther, bytes_of(word)));
    } else {
      Pending numbers_here = r.peers.recv(0, kTag, raw(numbers));
      compute_until(r, [&] { return looked.load(); });
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(word)));
      r.peers.wait(numbers_here);
      EXPECT_EQ(numbers[kLong - 1], 1);
    }
  });
}

// Of what carries messages from host to host.
class BetweenHosts : public ProgressContract {};

TEST_P(BetweenHosts, ALongMessageStandsStillUntilItsReceiveIsPosted) {
  run(2, [&](Rank& r) {
    std::vector<float> numbers(kLong, static_cast<float>(1 + r.rank()));
    int word = 0;
    if (r.rank() == 0) {
      Pending sent = r.peers.send(1, kTag, raw(numbers));
      const TransportError late = error_of([&] { r.peers.wait(sent, {r.peers.now() + 0.2}); });
      EXPECT_EQ(late.kind(), TransportError::Kind::deadline);
      r.peers.wait(r.peers.send(1, kOther, bytes_of(word)));  // overtakes it
      r.peers.wait(sent);
    } else {
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(word)));
      const auto announced = r.peers.probe(0, kTag);
      ASSERT_TRUE(announced);
      EXPECT_EQ(announced->bytes, kLong * sizeof(float));
      r.peers.wait(r.peers.recv(0, kTag, raw(numbers)));
      EXPECT_EQ(numbers[kLong - 1], 1);
    }
  });
}

TEST_P(ProgressContract, ALongMessageMovesBesideTheComputationOnTheBackgroundsLane) {
  std::atomic<bool> arrived = false;
  run(2, [&](Rank& r) {
    std::vector<float> numbers(kLong, static_cast<float>(1 + r.rank()));
    const std::uint64_t job = r.background.post([&](Transport& lane) {
      if (r.rank() == 0)
        lane.wait(lane.send(1, kTag, raw(numbers)));
      else
        lane.wait(lane.recv(0, kTag, raw(numbers)));
      if (r.rank() == 1) arrived = true;
    });
    compute_until(r, [&] { return arrived.load(); });
    r.background.wait(job);
    EXPECT_EQ(numbers[0], 1);
  });
}

TEST_P(ProgressContract, ARingEndsTheBellOfAJobThatWaitsForMessages) {
  run(2, [](Rank& r) {
    std::vector<int> heard;
    const std::uint64_t job = r.background.post([&](Transport& lane) {
      int word = 0;
      Pending message = lane.recv(1 - r.rank(), kTag, bytes_of(word));
      for (int i = 0; i < 3; ++i) {
        Pending bell = lane.bell();
        const Request open[] = {message.request(), bell.request()};
        const Ending ending = lane.wait_any(open, lane.patience());
        heard.push_back(static_cast<int>(ending.index));
        EXPECT_TRUE(ending.arrived());
        EXPECT_EQ(ending.arrival.from, r.rank());
        EXPECT_EQ(ending.arrival.bytes, 0u);
      }
      EXPECT_TRUE(lane.give_up(message.request()));
    });
    for (int i = 0; i < 3; ++i) {
      r.clock.charge(0.1);
      r.background.ring();
    }
    r.background.wait(job);
    EXPECT_EQ(heard, (std::vector<int>{1, 1, 1}));
    Pending mine = r.peers.send(1 - r.rank(), kOther, {});  // nobody leaves before
    r.peers.wait(r.peers.recv(1 - r.rank(), kOther, {}));
    r.peers.wait(mine);
  });
}

TEST_P(ProgressContract, ABellCanBeTestedAndGivenUpAndARingIsKept) {
  run(2, [](Rank& r) {
    Pending first = r.peers.bell();
    EXPECT_FALSE(r.peers.test(first.request()));
    EXPECT_TRUE(r.peers.give_up(first.request()));
    r.peers.ring();
    Pending second = r.peers.bell(), third = r.peers.bell();
    EXPECT_TRUE(r.peers.test(second.request()));
    EXPECT_FALSE(r.peers.test(third.request()));
    const TransportError late = error_of([&] { r.peers.wait(third, {r.peers.now() + 0.01}); });
    EXPECT_EQ(late.kind(), TransportError::Kind::deadline);
    r.peers.ring();
    EXPECT_EQ(r.peers.wait(third).from, r.rank());
  });
}

// One that only waits for a bell is not stopped by peers that left.
TEST_P(ProgressContract, ABellOutlivesThePeers) {
  run(2, [](Rank& r) {
    if (r.rank() == 1) return;
    int word = 0;
    EXPECT_TRUE(error_of([&] { r.peers.wait(r.peers.recv(1, kTag, bytes_of(word))); }).is_gone());
    Pending bell = r.peers.bell();
    r.peers.ring();
    r.peers.wait(bell);
  });
}

INSTANTIATE_TEST_SUITE_P(Every, ProgressContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

std::vector<World> bounded_worlds() {
  std::vector<World> all = worlds();
  std::erase_if(all, [](const World& w) { return w.name == "loopback"; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Every, BoundedBuffers, ::testing::ValuesIn(bounded_worlds()), world_name);

std::vector<World> worlds_of_hosts() {
  std::vector<World> all;
  for (const World& w : worlds())
    if (w.name == "ucx" || w.name == "simulated")
      all.push_back({w.name, [run = w.run](int ranks, const Body& body, FabricOptions options) {
                       options.ranks_per_host = 1;
                       run(ranks, body, options);
                     }});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Every, BetweenHosts, ::testing::ValuesIn(worlds_of_hosts()), world_name);

}  // namespace
}  // namespace lockstep::testing
