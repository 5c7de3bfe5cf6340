// Messages that arrive: order, matching, sizes, lanes.
#include <numeric>

#include "transport/contract.h"

namespace lockstep::testing {
namespace {

ConstBytes text(const std::string& s) { return {s.data(), s.size()}; }

std::vector<float> ramp(std::size_t n, float start) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

class MessageContract : public TransportContract {};

TEST_P(MessageContract, RanksKnowTheirPlace) {
  std::vector<int> seen(4, -1);
  run(4, [&](Rank& r) {
    seen[r.rank()] = r.size();
    EXPECT_EQ(r.peers.host_of(0), 0);  // and then counted up
    for (int p = 1; p < 4; ++p) EXPECT_LE(r.peers.host_of(p), r.peers.host_of(p - 1) + 1);
  });
  EXPECT_THAT(seen, ::testing::Each(4));
}

TEST_P(MessageContract, AMessageArrivesWithItsSenderAndSize) {
  run(2, [](Rank& r) {
    if (r.rank() == 0) {
      r.peers.wait(r.peers.send(1, kTag, text("hello")));
    } else {
      std::string got(16, '.');
      const Arrival a = r.peers.wait(r.peers.recv(0, kTag, {(std::byte*)got.data(), got.size()}));
      EXPECT_EQ(a.from, 0);
      EXPECT_EQ(a.bytes, 5u);
      EXPECT_EQ(got, "hello...........");
    }
  });
}

TEST_P(MessageContract, AnEmptyMessageIsAMessage) {
  run(2, [](Rank& r) {
    Pending q = r.rank() == 0 ? r.peers.send(1, kTag, {}) : r.peers.recv(0, kTag, {});
    EXPECT_EQ(r.peers.wait(q).bytes, 0u);
  });
}

TEST_P(MessageContract, LargeMessagesCrossInBothDirectionsAtOnce) {
  const std::size_t n = 3'000'001;
  run(2, [&](Rank& r) {
    auto mine = ramp(n, static_cast<float>(r.rank()));
    std::vector<float> theirs(n);
    Pending out = r.peers.send(1 - r.rank(), kTag, raw(mine));
    Pending in = r.peers.recv(1 - r.rank(), kTag, raw(theirs));
    r.peers.wait(out);
    EXPECT_EQ(r.peers.wait(in).bytes, n * 4);
    EXPECT_EQ(theirs, ramp(n, static_cast<float>(1 - r.rank())));
  });
}

TEST_P(MessageContract, OrderIsKeptPerPeerAndTag) {
  run(3, [](Rank& r) {
    const int messages = 200;
    if (r.rank() > 0) {
      std::vector<int> sent(messages);
      std::vector<Pending> open;
      for (int i = 0; i < messages; ++i) {
        sent[i] = i;
        open.push_back(r.peers.send(0, i % 2 ? kOther : kTag, bytes_of(sent[i])));
      }
      for (Pending& q : open) r.peers.wait(q);
    } else {
      for (const Tag tag : {kOther, kTag})  // the second tag's messages have to wait their turn
        for (const int from : {2, 1})
          for (int i = tag.number == kOther.number; i < messages; i += 2) {
            int got = -1;
            r.peers.wait(r.peers.recv(from, tag, bytes_of(got)));
            EXPECT_EQ(got, i);
          }
    }
  });
}

TEST_P(MessageContract, ReceivesPostedFirstAreFilledFirst) {
  run(2, [](Rank& r) {
    int a = 1, b = 2;
    if (r.rank() == 0) {
      Pending one = r.peers.send(1, kTag, bytes_of(a));
      Pending two = r.peers.send(1, kTag, bytes_of(b));
      r.peers.wait(two);
      r.peers.wait(one);
    } else {
      int first = 0, second = 0;
      Pending one = r.peers.recv(0, kTag, bytes_of(first));
      Pending two = r.peers.recv(0, kTag, bytes_of(second));
      r.peers.wait(two);
      r.peers.wait(one);
      EXPECT_EQ(first, 1);
      EXPECT_EQ(second, 2);
    }
  });
}

TEST_P(MessageContract, CombineFoldsInsteadOfOverwriting) {
  const std::size_t n = 300'007;
  run(2, [&](Rank& r) {
    auto mine = ramp(n, 1);
    if (r.rank() == 0) {
      r.peers.wait(r.peers.send(1, kTag, raw(mine)));
    } else {
      const Combine add = Values(mine.data(), n, Type::fp32).combine();
      r.peers.wait(r.peers.recv(0, kTag, raw(mine), add));
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(mine[i], 2 * static_cast<float>(i + 1));
    }
  });
}

TEST_P(MessageContract, WaitAnyEndsTheOneThatIsComplete) {
  run(3, [](Rank& r) {
    int got1 = 0, got2 = 0, go = 1;
    if (r.rank() == 0) {
      Pending one = r.peers.recv(1, kTag, bytes_of(got1)),
              two = r.peers.recv(2, kTag, bytes_of(got2));
      const Request both[] = {one.request(), two.request()};
      Ending ending = r.peers.wait_any(both, r.peers.patience());
      EXPECT_TRUE(ending.arrived());
      EXPECT_EQ(ending.index, 1u);  // rank 1 waits for our word
      EXPECT_EQ(ending.arrival.from, 2);
      r.peers.wait(r.peers.send(1, kOther, bytes_of(go)));
      ending = r.peers.wait_any({both, 1}, r.peers.patience());
      EXPECT_EQ(ending.index, 0u);
      EXPECT_EQ(ending.arrival.from, 1);
    } else {
      if (r.rank() == 1) r.peers.wait(r.peers.recv(0, kOther, bytes_of(go)));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(go)));
    }
  });
}

// Decorators that hold messages back may see to another order.
class ListOrder : public TransportContract {};

TEST_P(ListOrder, OfSeveralCompleteRequestsTheFirstInTheListEnds) {
  run(2, [](Rank& r) {
    int values[] = {1, 2, 3};
    constexpr Tag kLast{Purpose::control, 1};
    if (r.rank() == 1) {
      for (const Tag tag : {kOther, kTag, kLast}) r.peers.wait(r.peers.send(0, tag, {}));
      return;
    }
    Pending one = r.peers.recv(1, kTag, bytes_of(values[0]));
    Pending two = r.peers.recv(1, kOther, bytes_of(values[1]));
    r.peers.wait(r.peers.recv(1, kLast, bytes_of(values[2])));  // by then all have come
    const Request both[] = {one.request(), two.request()};
    EXPECT_EQ(r.peers.wait_any(both, r.peers.patience()).index, 0u);
    EXPECT_EQ(r.peers.wait_any({both + 1, 1}, r.peers.patience()).index, 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ListOrder, ::testing::ValuesIn(worlds()), world_name);

TEST_P(MessageContract, TestAndProbeDontBlock) {
  run(2, [](Rank& r) {
    int value = 5, go = 0;
    if (r.rank() == 0) {
      int got = 0;
      Pending q = r.peers.recv(1, kTag, bytes_of(got));
      EXPECT_FALSE(r.peers.test(q.request()));
      EXPECT_FALSE(r.peers.probe(1, kOther));
      r.peers.wait(r.peers.send(1, kTag, bytes_of(go)));
      EXPECT_EQ(r.peers.wait(q).bytes, sizeof got);
      EXPECT_EQ(got, 5);
      std::optional<Arrival> waiting;
      while (!waiting) waiting = r.peers.probe(kAnyRank, kOther), r.clock.charge(1e-6);
      EXPECT_EQ(waiting->from, 1);
      EXPECT_EQ(waiting->bytes, sizeof value);
      Pending second = r.peers.recv(1, kOther, bytes_of(got));
      std::optional<Ending> ended;
      while (!ended) ended = r.peers.test(second.request()), r.clock.charge(1e-6);
      EXPECT_EQ(ended->arrival.from, 1);
    } else {
      r.peers.wait(r.peers.recv(0, kTag, bytes_of(go)));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
      r.peers.wait(r.peers.send(0, kOther, bytes_of(value)));
    }
  });
}

TEST_P(MessageContract, ManyRanksExchangeWithEverybody) {
  run(8, [](Rank& r) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> in(8, -1);
      int mine = r.rank() * 1000 + round;
      std::vector<Pending> open;
      for (int p = 0; p < 8; ++p)
        if (p != r.rank()) {
          open.push_back(r.peers.recv(p, kTag, bytes_of(in[p])));
          open.push_back(r.peers.send(p, kTag, bytes_of(mine)));
        }
      while (!open.empty()) {
        const Ending ending = r.peers.wait_any(requests_of(open), r.peers.patience());
        ASSERT_TRUE(ending.arrived());
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(ending.index));
      }
      for (int p = 0; p < 8; ++p) {
        if (p != r.rank()) {
          ASSERT_EQ(in[p], p * 1000 + round);
        }
      }
    }
  });
}

TEST_P(MessageContract, LanesDontMixAndBackgroundJobsRunInOrder) {
  run(2, [](Rank& r) {
    int front = 1, back = 2, got_front = 0, got_back = 0;
    std::vector<int> order;
    r.background.post([&](Transport& lane) {
      Pending in = lane.recv(1 - r.rank(), kTag, bytes_of(got_back));
      lane.wait(lane.send(1 - r.rank(), kTag, bytes_of(back)));
      lane.wait(in);
      order.push_back(1);
    });
    const auto second = r.background.post([&](Transport&) { order.push_back(2); });
    Pending in = r.peers.recv(1 - r.rank(), kTag, bytes_of(got_front));
    r.peers.wait(r.peers.send(1 - r.rank(), kTag, bytes_of(front)));
    r.peers.wait(in);
    r.background.wait(second);
    EXPECT_EQ(got_front, 1);
    EXPECT_EQ(got_back, 2);
    EXPECT_THAT(order, ::testing::ElementsAre(1, 2));
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, MessageContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

}  // namespace
}  // namespace lockstep::testing
