#include "transport/decorators/faulty.h"

#include <gmock/gmock.h>

#include "transport/fabric.h"
#include "transport/virtual_pair.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::VirtualNet;
using testing::VirtualRank;

constexpr Tag kTag{Purpose::gradients, 1};
constexpr Tag kOther{Purpose::gradients, 2};

TEST(Fault, IsReadFromText) {
  const Fault kill = parse_fault("kill:rank=2,after=100");
  EXPECT_EQ(kill.kind, Fault::Kind::kill);
  EXPECT_EQ(kill.rank, 2);
  EXPECT_EQ(kill.after, 100u);
  const Fault delay = parse_fault("delay:rank=1,seconds=0.01,probability=0.1");
  EXPECT_EQ(delay.kind, Fault::Kind::delay);
  EXPECT_DOUBLE_EQ(delay.seconds, 0.01);
  EXPECT_DOUBLE_EQ(delay.probability, 0.1);
  const Fault stall = parse_fault("stall:rank=0,at=2s,seconds=100ms");
  EXPECT_EQ(stall.kind, Fault::Kind::stall);
  EXPECT_DOUBLE_EQ(stall.at_seconds, 2);
  EXPECT_DOUBLE_EQ(stall.seconds, 0.1);
}

TEST(Fault, WrongTextSaysWhatIsRight) {
  const auto said = [](const char* text) -> std::string {
    try {
      parse_fault(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(said("kil:rank=1"), HasSubstr("did you mean 'kill'"));
  EXPECT_THAT(said("kill"), HasSubstr("'kill' needs rank"));
  EXPECT_THAT(said("kill:rank=-1"), HasSubstr("0 or more"));
  EXPECT_THAT(said("kill:rank=1,seconds=2"), HasSubstr("valid: rank, after, at"));
  EXPECT_THAT(said("stall:rank=1"), HasSubstr("'stall' needs seconds"));
  EXPECT_THAT(said("delay:rank=1,seconds=1,probability=2"), HasSubstr("between 0 and 1"));
}

struct Pair {
  VirtualNet net;
  VirtualRank sender{net, 0}, below{net, 1};
  Sleep sleep = [this](double seconds) { net.now += seconds; };
  int value = 0, got = 0, got2 = 0;

  Faulty faulty(const std::vector<std::string>& texts, std::uint64_t seed = 1) {
    std::vector<Fault> faults;
    for (const auto& text : texts) faults.push_back(parse_fault(text));
    return Faulty(below, faults, seed, sleep);
  }
  void send(Tag tag) { sender.wait(sender.send(1, tag, bytes_of(++value))); }
};

TEST(Faulty, ADelayedMessageComesLate) {
  Pair p;
  Faulty peers = p.faulty({"delay:rank=1,seconds=2"});
  p.send(kTag);
  EXPECT_EQ(peers.wait(peers.recv(0, kTag, bytes_of(p.got))).from, 0);
  EXPECT_NEAR(p.net.now, 2, 1e-8);
  EXPECT_EQ(p.got, 1);
}

// Two tags, ten messages each, some late: how often one ends before another that was posted
// earlier.
int overtakings(std::uint64_t seed) {
  Pair p;
  Faulty peers = p.faulty({"delay:rank=1,seconds=1,probability=0.3"}, seed);
  int got[20] = {};
  std::vector<Pending> open;
  std::vector<int> number;
  for (int i = 0; i < 20; ++i) {
    open.push_back(peers.recv(0, i % 2 ? kOther : kTag, bytes_of(got[i])));
    number.push_back(i);
  }
  for (int i = 0; i < 20; ++i) p.send(i % 2 ? kOther : kTag);
  int overtaken = 0, last[2] = {-1, -1};
  while (!open.empty()) {
    std::vector<Request> requests;
    for (const Pending& pending : open) requests.push_back(pending.request());
    const auto index =
        static_cast<std::ptrdiff_t>(peers.wait_any(requests, peers.patience()).index);
    const int i = number[index];
    EXPECT_GT(i, last[i % 2]) << "none overtakes another on its tag";
    EXPECT_EQ(got[i], i + 1);
    last[i % 2] = i;
    overtaken += index > 0;
    open.erase(open.begin() + index);
    number.erase(number.begin() + index);
  }
  return overtaken;
}

TEST(Faulty, ADelayHoldsUpItsOwnTagOnly) {
  int overtaken = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) overtaken += overtakings(seed);
  EXPECT_GT(overtaken, 0) << "the other tag's messages pass";
}

TEST(Faulty, TheSameSeedGivesTheSameFaults) {
  const auto times = [](std::uint64_t seed) {
    Pair p;
    Faulty peers = p.faulty({"delay:rank=1,seconds=1,probability=0.5"}, seed);
    std::vector<double> seen;
    for (int i = 0; i < 40; ++i) {
      p.send(kTag);
      peers.wait(peers.recv(0, kTag, bytes_of(p.got)));
      seen.push_back(p.net.now);
    }
    return seen;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
  EXPECT_GT(times(1).back(), 8);
  EXPECT_LT(times(1).back(), 32);
}

TEST(Faulty, AStallPassesTimeOnce) {
  Pair p;
  Faulty peers = p.faulty({"stall:rank=1,after=2,seconds=5", "stall:rank=0,seconds=100"});
  EXPECT_FALSE(peers.probe(0, kTag));
  EXPECT_FALSE(peers.probe(0, kTag));
  EXPECT_DOUBLE_EQ(p.net.now, 0);
  EXPECT_FALSE(peers.probe(0, kTag));
  EXPECT_FALSE(peers.probe(0, kTag));
  EXPECT_DOUBLE_EQ(p.net.now, 5);
}

TEST(Faulty, AFaultMayWaitForItsTime) {
  Pair p;
  Faulty peers = p.faulty({"kill:rank=1,at=3s"});
  p.net.now = 2.9;
  EXPECT_FALSE(peers.probe(0, kTag));
  p.net.now = 3.1;
  EXPECT_THROW(peers.probe(0, kTag), RankKilled);
}

TEST(Faulty, AKilledRankStaysKilled) {
  Pair p;
  Faulty peers = p.faulty({"kill:rank=1,after=1"});
  Pending open = peers.recv(0, kTag, bytes_of(p.got));
  EXPECT_THROW((void)peers.send(0, kTag, {}), RankKilled);
  EXPECT_THROW(peers.wait(open), RankKilled);
  EXPECT_THROW(peers.open_window(8), RankKilled);
  EXPECT_TRUE(peers.give_up(open.request())) << "cleaning up is not refused";
}

TEST(Faulty, TheOwnerSaysHowARankDies) {
  Pair p;
  int died = 0;
  Faulty peers(p.below, {parse_fault("kill:rank=1")}, 1, p.sleep, [&] { ++died; });
  EXPECT_THROW(peers.dead_peers(), RankKilled);
  EXPECT_THROW(peers.dead_peers(), RankKilled);
  EXPECT_EQ(died, 1);
}

TEST(Faulty, SurvivorsAreToldWhoIsGone) {
  EXPECT_THROW(run_loopback(3,
                            [](Rank& r) {
                              Faulty peers(r.peers, {parse_fault("kill:rank=2,after=20")}, 1, {});
                              const auto round = [&] {
                                int out = 0, in = 0;
                                Pending receive =
                                    peers.recv((r.rank() + 2) % 3, kTag, bytes_of(in));
                                peers.wait(peers.send((r.rank() + 1) % 3, kTag, bytes_of(out)));
                                peers.wait(receive);
                              };
                              try {
                                for (;;) round();
                              } catch (const TransportError& error) {
                                EXPECT_EQ(error.peer(), 2) << error.what();
                                EXPECT_NE(r.rank(), 2);
                              }
                            }),
               RankKilled);
}

TEST(Faulty, AMeetingIsAnOperation) {
  EXPECT_THROW(run_loopback(2,
                            [](Rank& r) {
                              Faulty peers(r.peers, {parse_fault("kill:rank=1,after=2")}, 1, {});
                              const auto window = peers.open_window(8);
                              for (;;) {
                                try {
                                  window->meet({});
                                } catch (const TransportError& error) {
                                  EXPECT_EQ(error.peer(), 1);
                                  return;
                                }
                              }
                            }),
               RankKilled);
}

TEST(Faulty, AFaultOfNobodyIsRefused) {
  Pair p;
  EXPECT_THROW(p.faulty({"kill:rank=2"}), UsageError);
}

}  // namespace
}  // namespace lockstep
