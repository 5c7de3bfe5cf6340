#include "transport/witnessed.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "transport/fabric.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr Tag kTag{Purpose::gradients, 1};
constexpr Tag kOther{Purpose::gradients, 2};
constexpr int kRanks = 4;
constexpr int kMessages = 25;

// What happens by chance: each sender dawdles for random lengths, seeded anew each time.
void dawdle(Rng& random) {
  const auto spins = random.below(20'000);
  for (std::uint64_t i = 0; i < spins; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  if (random.below(4) == 0) std::this_thread::yield();
}

// Everything rank 0 sees that may differ from run to run.
using Seen = std::vector<std::uint64_t>;

// Takes what comes in order of arrival; polls, probes, and gives up on the way.
Seen collect(Transport& peers) {
  Seen seen;
  std::uint64_t values[kRanks] = {};
  int left[kRanks] = {};
  std::vector<Pending> open;
  std::vector<int> from;
  const auto post = [&](int rank) {
    open.push_back(peers.recv(rank, kTag, bytes_of(values[rank])));
    from.push_back(rank);
  };
  for (int r = 1; r < kRanks; ++r) {
    left[r] = kMessages;
    post(r);
  }
  while (!open.empty()) {
    std::size_t index = 0;
    if (!peers.test(open[0].request())) {
      std::vector<Request> requests;
      for (const Pending& pending : open) requests.push_back(pending.request());
      index = peers.wait_any(requests, peers.patience()).index;
    }
    const int rank = from[index];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
    seen.insert(seen.end(), {index, values[rank]});
    if (const auto next = peers.probe(kAnyRank, kTag))
      seen.insert(seen.end(), {100 + static_cast<std::uint64_t>(next->from), next->bytes});
    if (--left[rank] > 0) post(rank);
  }
  for (int i = 0; i < 2; ++i) {  // the second may get what the first gave up, if that did not come
    std::uint64_t last = 0;
    Pending late = peers.recv(1, kOther, bytes_of(last));
    seen.push_back(1000 + peers.ending(late, {peers.now()}).arrived());
  }
  seen.push_back(peers.dead_peers().size());
  return seen;
}

Seen race(std::vector<std::unique_ptr<Witness>>& witnesses, std::uint64_t chance) {
  Seen seen;
  run_loopback(kRanks, [&](Rank& r) {
    Witnessed peers(r.peers, *witnesses[r.rank()]);
    if (r.rank() == 0) {
      seen = collect(peers);
    } else {
      Rng random(chance, r.rank(), 0);
      for (int i = 0; i < kMessages; ++i) {
        dawdle(random);
        std::uint64_t mine = static_cast<std::uint64_t>(r.rank()) * 1000 + i;
        peers.wait(peers.send(0, kTag, bytes_of(mine)));
      }
      std::uint64_t last = 0;
      dawdle(random);
      if (r.rank() == 1) peers.wait(peers.send(0, kOther, bytes_of(last)));
    }
  });
  return seen;
}

template <class Make>
std::vector<std::unique_ptr<Witness>> witnesses(Make make) {
  std::vector<std::unique_ptr<Witness>> all;
  for (int r = 0; r < kRanks; ++r) all.push_back(make(r));
  return all;
}

TEST(Witnessed, ARaceIsReplayedTwentyTimes) {
  auto recorders = witnesses([](int) { return std::make_unique<RecordingWitness>(); });
  const Seen recorded = race(recorders, 1);
  std::vector<WitnessLog> logs;
  for (auto& w : recorders) {
    const auto bytes = static_cast<RecordingWitness&>(*w).log().to_bytes();
    logs.push_back(WitnessLog::from_bytes({bytes.data(), bytes.size()}));
  }
  for (std::uint64_t chance = 2; chance < 22; ++chance) {
    auto replayers = witnesses([&](int r) { return std::make_unique<ReplayingWitness>(logs[r]); });
    EXPECT_EQ(race(replayers, chance), recorded) << "chance " << chance;
    for (auto& w : replayers) EXPECT_TRUE(static_cast<ReplayingWitness&>(*w).finished());
  }
}

TEST(Witnessed, WithoutARecordTheRaceDiffers) {
  auto live = witnesses([](int) { return std::make_unique<Witness>(); });
  std::set<Seen> outcomes;
  for (std::uint64_t chance = 1; chance < 200 && outcomes.size() < 2; ++chance)
    outcomes.insert(race(live, chance));
  EXPECT_GE(outcomes.size(), 2u) << "the race above would prove nothing";
}

std::string divergence(const WitnessLog& log, const Body& body) {
  std::string said;
  run_loopback(2, [&](Rank& r) {
    if (r.rank() != 0) return;
    ReplayingWitness witness(log);
    Witnessed peers(r.peers, witness);
    try {
      Rank replayed{peers, r.clock, r.background, r.lock, r.seed};
      body(replayed);
    } catch (const ReplayDiverged& error) {
      said = error.what();
    }
  });
  return said;
}

TEST(Witnessed, AnotherProgramIsAClearError) {
  RecordingWitness recording;
  run_loopback(2, [&](Rank& r) {
    if (r.rank() != 0) return;
    Witnessed peers(r.peers, recording);
    int got = 0;
    EXPECT_FALSE(peers.probe(1, kTag));
    peers.recv(1, kTag, bytes_of(got)).give_up();
    EXPECT_THROW(peers.wait(peers.recv(1, kTag, bytes_of(got))), TransportError) << "it left";
  });
  const WitnessLog& log = recording.log();
  int got = 0;
  EXPECT_EQ(divergence(log,
                       [&](Rank& r) {
                         r.peers.probe(1, kTag);
                         r.peers.dead_peers();
                       }),
            "choice 1 of the replay is a look at the dead where the recorded run had a wait: "
            "replay the same program with the same configuration");
  EXPECT_THAT(divergence({}, [&](Rank& r) { r.peers.probe(1, kTag); }),
              HasSubstr("after the recorded run's 0 choices"));
  EXPECT_EQ(divergence(log,
                       [&](Rank& r) {
                         r.peers.probe(1, kTag);
                         r.peers.recv(1, kTag, bytes_of(got)).give_up();
                         EXPECT_THROW(r.peers.wait(r.peers.recv(1, kTag, bytes_of(got))),
                                      TransportError);
                       }),
            "")
      << "the same one replays, and the peer leaves again";
}

// A receive that is given up takes its message with it, or not, as in the recorded run.
TEST(Witnessed, WhatWasLostIsLostAgain) {
  const auto second_of = [](Witness& witness, bool is_there) {
    int got = 0;
    run_loopback(2, [&](Rank& r) {
      int word = 0;
      if (r.rank() == 1) {
        for (int i : {1, 2}) r.peers.wait(r.peers.send(0, kTag, bytes_of(i)));
        r.peers.wait(r.peers.send(0, kOther, bytes_of(word)));
        return;
      }
      if (is_there) r.peers.wait(r.peers.recv(1, kOther, bytes_of(word)));
      Witnessed peers(r.peers, witness);
      Pending lost = peers.recv(1, kTag, bytes_of(got));
      if (is_there) (void)r.peers.probe(1, kOther);  // lets the message land
      lost.give_up();
      peers.wait(peers.recv(1, kTag, bytes_of(got)));
    });
    return got;
  };
  RecordingWitness recording;
  ASSERT_EQ(second_of(recording, true), 2);
  for (const bool is_there : {true, false}) {
    ReplayingWitness replaying(recording.log());
    EXPECT_EQ(second_of(replaying, is_there), 2);
  }
}

TEST(Witnessed, ADamagedRecordIsRefused) {
  const std::byte cut[] = {std::byte(1), std::byte(0x80)};
  EXPECT_THROW(WitnessLog::from_bytes({cut, sizeof cut}), UsageError);
}

// The rank and its background take a lock in turns that chance decides.
std::vector<int> lock_race(Witness& witness, std::uint64_t chance) {
  std::vector<int> order;
  run_loopback(1, [&](Rank& r) {
    const auto front = std::this_thread::get_id();
    WitnessedLock lock(
        r.lock, witness, r.clock, [&] { return std::this_thread::get_id() != front; },
        [] { std::this_thread::yield(); });
    const auto take = [&](int who) {
      Rng random(chance, who, 1);
      for (int i = 0; i < 50; ++i) {
        dawdle(random);
        std::lock_guard guard(lock);
        order.push_back(who);
      }
    };
    const auto job = r.background.post([&](Transport&) { take(1); });
    take(0);
    r.background.wait(job);
  });
  return order;
}

TEST(Witnessed, TheOrderOfALockIsReplayed) {
  RecordingWitness recording;
  const auto recorded = lock_race(recording, 1);
  for (std::uint64_t chance = 2; chance < 12; ++chance) {
    ReplayingWitness replaying(recording.log());
    EXPECT_EQ(lock_race(replaying, chance), recorded);
    EXPECT_TRUE(replaying.finished());
  }
}

TEST(Witnessed, ALockTakenOnceMoreDiverges) {
  ReplayingWitness nothing({});
  EXPECT_THROW(lock_race(nothing, 1), ReplayDiverged);
}

}  // namespace
}  // namespace lockstep
