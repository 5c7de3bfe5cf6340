// Requests that are given up: nothing waits, no memory is used any more, and what comes next is
// whole.
#include <atomic>
#include <thread>

#include "core/rng.h"
#include "transport/contract.h"

namespace lockstep::testing {
namespace {

class GivingUpContract : public TransportContract {
 protected:
  // How long it takes to give this up, and that it takes no virtual time.
  static void expect_at_once(Rank& r, Pending& pending) {
    const double before = r.peers.now();
    pending.give_up();
    const double seconds = r.peers.now() - before;
    if (GetParam().name == "simulated")
      EXPECT_EQ(seconds, 0);
    else
      EXPECT_LT(seconds, 5);  // of a patience of 60; a busy machine takes its time
  }

  static void dawdle(Rank& r, Rng& random) {
    r.clock.charge(1e-4 * random.uniform());
    for (auto spins = random.below(30'000); spins > 0; --spins)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

// More than rings, sockets and what is sent by reference.
constexpr std::size_t kLong = 1 << 20;
constexpr int kRounds = 12;

bool all_are(const std::vector<float>& numbers, float value) {
  return std::ranges::all_of(numbers, [&](float x) { return x == value; });
}

// Rank 2 takes what rank 0 sends in a round: ones, which were given up and may not come, then twos.
// False: rank 0 hung up, as a wire may that can't take its bytes back.
bool take_round(Rank& r, Tag tag) {
  std::vector<float> got(kLong);
  for (bool again = true; again;) {
    Pending coming = r.peers.recv(0, tag, raw(got));
    if (!r.peers.ending(coming, r.peers.patience()).arrived()) return false;
    again = got[0] == 1;
    EXPECT_TRUE(all_are(got, again ? 1 : 2)) << got[0] << " " << got[kLong - 1];
  }
  int word = 0;
  Pending told = r.peers.send(0, kOther, bytes_of(word));
  return r.peers.ending(told, r.peers.patience()).arrived();
}

bool send_round(Rank& r, Tag tag, std::span<float> numbers, Rng& random,
                const std::function<void(Pending&)>& give_up) {
  std::ranges::fill(numbers, 1.0f);
  Pending sending = r.peers.send(2, tag, {numbers.data(), numbers.size() * sizeof(float)});
  bool ended = false;
  for (auto looks = random.below(6); looks > 0 && !ended; --looks) {
    if (auto ending = r.peers.test(sending.request())) ended = true;
  }
  give_up(sending);
  std::ranges::fill(numbers, -1.0f);
  std::vector<float> twos(kLong, 2);
  int word = 0;
  Pending next = r.peers.send(2, tag, raw(twos));
  Pending heard = r.peers.recv(2, kOther, bytes_of(word));
  return r.peers.ending(next, r.peers.patience()).arrived() &&
         r.peers.ending(heard, r.peers.patience()).arrived();
}

TEST_P(GivingUpContract, ASendArrivesWholeOrNotAtAll) {
  run(3, [](Rank& r) {
    Rng random(1, r.rank(), 0);
    std::vector<float> numbers(kLong);
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const Tag tag{Purpose::gradients, 100 + i};
      if (r.rank() != 1) dawdle(r, random);
      if (r.rank() == 0 && !send_round(r, tag, numbers, random,
                                       [&](Pending& sending) { expect_at_once(r, sending); }))
        return;
      if (r.rank() == 2 && !take_round(r, tag)) return;
    }
  });
}

// What lies in a window may be read by the peer where it is.
TEST_P(GivingUpContract, ASendOutOfAWindowArrivesWholeOrNotAtAll) {
  run(3, [](Rank& r) {
    Rng random(2, r.rank(), 0);
    const auto window = r.peers.open_window(kLong * sizeof(float));
    const std::span<float> numbers(reinterpret_cast<float*>(window->mine().data), kLong);
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const Tag tag{Purpose::gradients, 100 + i};
      if (r.rank() != 1) dawdle(r, random);
      if (r.rank() == 0 && !send_round(r, tag, numbers, random,
                                       [&](Pending& sending) { expect_at_once(r, sending); }))
        return;
      if (r.rank() == 2 && !take_round(r, tag)) return;
    }
  });
}

TEST_P(GivingUpContract, AReceiveTakesNoMessageThatHasNotBegunToCome) {
  run(2, [](Rank& r) {
    int got = 0, go = 1, value = 9;
    if (r.rank() == 0) {
      int never = 0;
      EXPECT_TRUE(r.peers.give_up(r.peers.recv(1, kTag, bytes_of(never)).request()));
      r.peers.wait(r.peers.send(1, kOther, bytes_of(go)));
      r.peers.wait(r.peers.recv(1, kTag, bytes_of(got)));
      EXPECT_EQ(got, 9);
      EXPECT_EQ(never, 0);
    } else {
      r.peers.wait(r.peers.recv(0, kOther, bytes_of(go)));
      r.peers.wait(r.peers.send(0, kTag, bytes_of(value)));
    }
  });
}

// Given up in the midst of a message or before it: its memory is not written to any more, and the
// next message is whole.
TEST_P(GivingUpContract, AReceiveLeavesItsMemoryAndTheNextMessageAlone) {
  run(3, [](Rank& r) {
    Rng random(3, r.rank(), 0);
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const Tag tag{Purpose::gradients, 100 + i};
      int word = 0;
      if (r.rank() == 1) return;
      dawdle(r, random);
      if (r.rank() == 0) {
        std::vector<float> ones(kLong, 1), twos(kLong, 2);
        Pending first = r.peers.send(2, tag, raw(ones)), second = r.peers.send(2, tag, raw(twos));
        Pending heard = r.peers.recv(2, kOther, bytes_of(word));
        for (Pending* pending : {&first, &second, &heard})
          if (!r.peers.ending(*pending, r.peers.patience()).arrived()) return;
        continue;
      }
      std::vector<float> given_up(kLong), got(kLong);
      {
        Pending coming = r.peers.recv(0, tag, raw(given_up));
        for (auto looks = random.below(8); looks > 0; --looks)
          if (r.peers.test(coming.request())) break;
        expect_at_once(r, coming);
      }
      std::ranges::fill(given_up, -1.0f);
      do {
        Pending coming = r.peers.recv(0, tag, raw(got));
        if (!r.peers.ending(coming, r.peers.patience()).arrived()) return;
        EXPECT_TRUE(all_are(got, got[0])) << got[0] << " " << got[kLong - 1];
      } while (got[0] == 1);
      EXPECT_EQ(got[0], 2);
      EXPECT_TRUE(all_are(given_up, -1));
      Pending told = r.peers.send(0, kOther, bytes_of(word));
      if (!r.peers.ending(told, r.peers.patience()).arrived()) return;
    }
  });
}

TEST_P(GivingUpContract, AReceiveThatFoldsCanBeGivenUpToo) {
  run(2, [](Rank& r) {
    std::vector<float> numbers(kLong, 1);
    int word = 0;
    if (r.rank() == 1) {
      Pending sent = r.peers.send(0, kTag, raw(numbers));
      Pending told = r.peers.send(0, kOther, bytes_of(word));
      r.peers.ending(sent, r.peers.patience());
      r.peers.ending(told, r.peers.patience());
      return;
    }
    const Combine add = Values(numbers.data(), kLong, Type::fp32).combine();
    {
      Pending coming = r.peers.recv(1, kTag, raw(numbers), add);
      for (int i = 0; i < 3; ++i)
        if (r.peers.test(coming.request())) break;
      expect_at_once(r, coming);
    }
    std::ranges::fill(numbers, -1.0f);
    Pending heard = r.peers.recv(1, kOther, bytes_of(word));
    r.peers.ending(heard, r.peers.patience());
    EXPECT_TRUE(all_are(numbers, -1));
    Pending rest = r.peers.recv(1, kTag, raw(numbers));  // or the peer is gone, or it was taken
    r.peers.ending(rest, {r.peers.now() + 0.5});
  });
}

// The error that unwinds one rank is no concern of the others, also where they share a thread.
TEST_P(GivingUpContract, RequestsAreGivenUpWhileAnErrorUnwinds) {
  run(3, [](Rank& r) {
    const int next = (r.rank() + 1) % 3, before = (r.rank() + 2) % 3;
    for (int i = 0; i < 3; ++i) {
      const std::string mine = fmt::format("rank {} round {}", r.rank(), i);
      int got = 0, value = i;
      try {
        Pending never = r.peers.recv(before, {Purpose::control, 1}, bytes_of(got));
        Pending sent = r.peers.send(next, kTag, bytes_of(value));
        r.peers.wait(r.peers.recv(before, kTag, bytes_of(got)));
        r.peers.wait(sent);
        throw UsageError(mine);
      } catch (const UsageError& e) {
        EXPECT_EQ(e.what(), mine);
      }
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      EXPECT_EQ(got, i);
    }
    r.peers.open_window(8);  // nobody leaves before all have their messages
  });
}

TEST_P(GivingUpContract, WhatHasEndedIsLeftAlone) {
  run(2, [](Rank& r) {
    int value = 1, got = 0;
    Pending sent = r.peers.send(1 - r.rank(), kTag, bytes_of(value));
    Pending come = r.peers.recv(1 - r.rank(), kTag, bytes_of(got));
    const Request both[] = {sent.request(), come.request()};
    r.peers.wait(come);
    r.peers.wait(sent);
    Pending next = r.peers.recv(1 - r.rank(), kOther, bytes_of(got));
    for (const Request ended : both) EXPECT_TRUE(r.peers.give_up(ended));
    r.peers.wait(r.peers.send(1 - r.rank(), kOther, bytes_of(value)));
    r.peers.wait(next);
    r.peers.open_window(8);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GivingUpContract, ::testing::ValuesIn(contract_worlds()),
                         world_name);

}  // namespace
}  // namespace lockstep::testing
