#include "measure/metered.h"

#include <gtest/gtest.h>

#include "transport/fabric.h"
#include "transport/group.h"

namespace lockstep {
namespace {

constexpr Tag kGradients{Purpose::gradients, 1};
constexpr Tag kWeights{Purpose::weights, 1};

TEST(Metered, CountsSendsWhenPostedAndReceivesWhenComplete) {
  run_loopback(2, [](Rank& r) {
    Ledger ledger(2);
    Metered peers(r.peers, ledger);
    char out[100] = {}, in[200];
    const int other = 1 - r.rank();
    Pending receive = peers.recv(other, kGradients, bytes_of(in));
    Pending send = peers.send(other, kGradients, bytes_of(out).part(0, 60));
    EXPECT_EQ(ledger.at(other, Purpose::gradients), (Traffic{60, 1, 0, 0}));
    peers.wait(send);
    peers.wait(receive);
    EXPECT_EQ(ledger.at(other, Purpose::gradients), (Traffic{60, 1, 60, 1}));
    peers.wait(peers.send(other, kWeights, bytes_of(out)));
    Pending tested = peers.recv(other, kWeights, bytes_of(in));
    while (!peers.test(tested.request())) {
    }
    EXPECT_EQ(ledger.at(other, Purpose::weights), (Traffic{100, 1, 100, 1}));
    EXPECT_EQ(total_with(ledger, r.rank()), Traffic{});
  });
}

TEST(Metered, HollowMessagesCountTheirSize) {
  run_loopback(2, [](Rank& r) {
    Ledger ledger(2);
    Metered peers(r.peers, ledger);
    const std::size_t huge = std::size_t(1) << 40;
    if (r.rank() == 0) {
      peers.wait(peers.send(1, kGradients, {nullptr, huge}));
      EXPECT_EQ(total(ledger).bytes_sent, huge);
    } else {
      peers.wait(peers.recv(0, kGradients, {nullptr, huge}));
      EXPECT_EQ(total(ledger).bytes_received, huge);
    }
  });
}

// A transport on which no send ever starts.
class Stuck final : public Decorator {
 public:
  using Decorator::Decorator;
  Request post_send(int, Tag, ConstBytes) override { return {1}; }
  bool give_up(Request) noexcept override { return true; }
};

TEST(Metered, ASendThatIsGivenUpBeforeItStartsIsTakenBack) {
  run_loopback(2, [](Rank& r) {
    Ledger ledger(2);
    Stuck stuck(r.peers);
    Metered peers(stuck, ledger);
    Pending send = peers.send(1 - r.rank(), kGradients, {nullptr, 64});
    EXPECT_EQ(total(ledger).bytes_sent, 64u);
    send.give_up();
    EXPECT_EQ(ledger, Ledger(2));
  });
}

TEST(Metered, ASendThatArrivesAllTheSameStaysCounted) {
  run_loopback(2, [](Rank& r) {
    Ledger ledger(2);
    Metered peers(r.peers, ledger);
    int word = 0;
    peers.send(1 - r.rank(), kGradients, bytes_of(word)).give_up();  // loopback had sent it
    peers.wait(peers.recv(1 - r.rank(), kGradients, bytes_of(word)));
    EXPECT_EQ(total(ledger), (Traffic{sizeof word, 1, sizeof word, 1}));
  });
}

TEST(Metered, AReceiveThatIsLateOrGivenUpIsNotCounted) {
  run_loopback(2, [](Rank& r) {
    Ledger ledger(2);
    Metered peers(r.peers, ledger);
    int got = 0;
    Pending receive = peers.recv(1 - r.rank(), kGradients, bytes_of(got));
    EXPECT_THROW(peers.wait(receive, {peers.now()}), TransportError);
    EXPECT_TRUE(peers.give_up(receive.request()));
    EXPECT_EQ(ledger, Ledger(2));
    r.peers.open_window(8);  // nobody leaves before both have come
  });
}

TEST(Metered, WindowsCountWhatMoved) {
  run_loopback(3, [](Rank& r) {
    const auto below = r.peers.open_window(64);
    Ledger ledger(3);
    Metered peers(r.peers, ledger);
    Group reversed(peers, {2, 1, 0});
    const auto window = peers.open_window(64);
    window->moved(1, kGradients, 10, 20);
    EXPECT_EQ(ledger.at(1, Purpose::gradients), (Traffic{20, 0, 10, 0}));
    peers.window_at(below->mine().data)->moved(1, kGradients, 1, 2);
    EXPECT_EQ(ledger.at(1, Purpose::gradients), (Traffic{22, 0, 11, 0}));
    reversed.window_at(window->mine().data)->moved(0, kWeights, 5, 0);
    EXPECT_EQ(ledger.at(2, Purpose::weights), (Traffic{0, 0, 5, 0}));
    window->meet({});
  });
}

}  // namespace
}  // namespace lockstep
