#include "transport/decorators/shaped.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "measure/metered.h"
#include "transport/fabric.h"
#include "transport/virtual_pair.h"

namespace lockstep {
namespace {

using testing::VirtualNet;
using testing::VirtualRank;

constexpr Tag kTag{Purpose::gradients, 1};
constexpr Tag kOther{Purpose::gradients, 2};

// 1,000 bytes a second and half a second away.
struct SlowPair {
  VirtualNet net;
  VirtualRank below0{net, 0}, below1{net, 1};
  Sleep sleep = [this](double seconds) { net.now += seconds; };
  std::vector<Link> links{2, Link{1000, 0.5}};
  Shaped a{below0, links, sleep}, b{below1, links, sleep};
  char data[100] = {}, got[100], got2[100];
};

TEST(Shaped, AMessageTakesItsLengthAndTheLatency) {
  SlowPair p;
  p.data[99] = 7;
  p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  EXPECT_DOUBLE_EQ(p.net.now, 0);
  EXPECT_EQ(p.b.wait(p.b.recv(0, kTag, bytes_of(p.got))).bytes, 100u);
  EXPECT_NEAR(p.net.now, 0.6, 1e-8);
  EXPECT_EQ(p.got[99], 7);
}

TEST(Shaped, MessagesQueueOnTheLink) {
  SlowPair p;
  for (int i = 0; i < 3; ++i) p.a.wait(p.a.send(1, i == 1 ? kOther : kTag, bytes_of(p.data)));
  p.b.wait(p.b.recv(0, kTag, bytes_of(p.got)));
  EXPECT_NEAR(p.net.now, 0.6, 1e-8);
  p.b.wait(p.b.recv(0, kTag, bytes_of(p.got)));
  EXPECT_NEAR(p.net.now, 0.8, 1e-8) << "the other tag's message was before it on the link";
  p.b.wait(p.b.recv(0, kOther, bytes_of(p.got)));
  EXPECT_NEAR(p.net.now, 0.8, 1e-8);
  p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  p.b.wait(p.b.recv(0, kTag, bytes_of(p.got)));
  EXPECT_NEAR(p.net.now, 1.4, 1e-8) << "the link had been idle";
}

TEST(Shaped, EachReceiveHasItsOwnMessagesStamp) {
  SlowPair p;
  for (int i = 0; i < 3; ++i) p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  Pending first = p.b.recv(0, kTag, bytes_of(p.got));
  Pending second = p.b.recv(0, kTag, bytes_of(p.got));
  Pending third = p.b.recv(0, kTag, bytes_of(p.got2));
  p.b.wait(third);
  EXPECT_NEAR(p.net.now, 0.8, 1e-8);
  EXPECT_TRUE(p.b.test(first.request()));
  EXPECT_TRUE(p.b.test(second.request()));
}

// The stamp of a message that is lost with its receive is not that of the next one.
TEST(Shaped, WhatIsGivenUpTakesItsStampWithIt) {
  SlowPair p;
  for (int i = 0; i < 3; ++i) p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  Pending first = p.b.recv(0, kTag, bytes_of(p.got));
  Pending second = p.b.recv(0, kTag, bytes_of(p.got));
  Pending third = p.b.recv(0, kTag, bytes_of(p.got2));
  EXPECT_FALSE(p.b.test(third.request()));  // all three are there below
  EXPECT_FALSE(p.b.give_up(second.request()));
  p.b.wait(first);
  EXPECT_NEAR(p.net.now, 0.6, 1e-8);
  p.b.wait(third);
  EXPECT_NEAR(p.net.now, 0.8, 1e-8);
}

TEST(Shaped, NothingIsSeenEarly) {
  SlowPair p;
  p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  EXPECT_FALSE(p.b.probe(0, kTag));
  EXPECT_FALSE(p.b.probe(kAnyRank, kTag));
  Pending r = p.b.recv(0, kTag, bytes_of(p.got));
  EXPECT_FALSE(p.b.test(r.request()));
  EXPECT_THROW(p.b.wait(r, {0.3}), TransportError);
  EXPECT_NEAR(p.net.now, 0.3, 1e-8);
  EXPECT_FALSE(p.b.test(r.request()));
  p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  p.net.now = 0.9;
  EXPECT_TRUE(p.b.test(r.request()));
  EXPECT_EQ(p.b.probe(kAnyRank, kTag)->from, 0);
}

TEST(Shaped, WaitAnyReturnsWhatIsDueFirst) {
  SlowPair p;
  p.a.wait(p.a.send(1, kTag, bytes_of(p.data)));
  p.a.wait(p.a.send(1, kOther, bytes_of(p.data).part(0, 1)));
  Pending other = p.b.recv(0, kOther, bytes_of(p.got)), same = p.b.recv(0, kTag, bytes_of(p.got2));
  const Request both[] = {other.request(), same.request()};
  EXPECT_EQ(p.b.wait_any(both, p.b.patience()).index, 1u);
  EXPECT_NEAR(p.net.now, 0.6, 1e-8);
  EXPECT_EQ(p.b.wait_any({both, 1}, p.b.patience()).index, 0u);
  EXPECT_NEAR(p.net.now, 0.601, 1e-8);
}

TEST(Shaped, StampsDontShowInTheLedgerAbove) {
  SlowPair p;
  Ledger ledger(2);
  Metered metered(p.a, ledger);
  metered.wait(metered.send(1, kTag, bytes_of(p.data)));
  EXPECT_EQ(total(ledger), (Traffic{100, 1, 0, 0}));
}

TEST(Shaped, WrongLinksAreRefused) {
  VirtualNet net;
  VirtualRank rank(net, 0);
  EXPECT_THROW(Shaped(rank, {Link{}}, {}), UsageError);
  EXPECT_THROW(Shaped(rank, {Link{}, Link{0, 0}}, {}), UsageError);
  EXPECT_THROW(Shaped(rank, {Link{}, Link{1, -1}}, {}), UsageError);
}

TEST(Shaped, ARingIsNotFasterThanItsLinks) {
  const std::size_t bytes = 200'000;
  const int rounds = 10;
  const Link link{20e6, 1e-3};  // a round takes at least 10 ms and 1 ms
  run_loopback(3, [&](Rank& r) {
    Shaped peers(r.peers, std::vector<Link>(3, link), [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
    std::vector<std::byte> out(bytes), in(bytes);
    const double start = peers.now();
    for (int round = 0; round < rounds; ++round) {
      Pending receive = peers.recv((r.rank() + 2) % 3, kTag, {in.data(), bytes});
      peers.wait(peers.send((r.rank() + 1) % 3, kTag, {out.data(), bytes}));
      peers.wait(receive);
    }
    const double seconds = peers.now() - start;
    const double least = rounds * (bytes / link.bytes_per_second + link.latency_seconds);
    if (r.rank() == 0) RecordProperty("seconds_over_least", std::to_string(seconds / least));
    EXPECT_GT(seconds, least * 0.999);
  });
}

}  // namespace
}  // namespace lockstep
