#include "cluster/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "cluster/control_handler.h"
#include "cluster/job_key.h"
#include "cluster/membership.h"
#include "cluster/program.h"
#include "cluster/protocol_constants.h"
#include "cluster/sockets.h"
#include "core/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CoordinatorTest : public testing::Test {
 protected:
  void open(int size) {
    size_ = size;
    coordinator_ = std::make_unique<Coordinator>(CoordinatorOptions{{"127.0.0.1", 0}, size, key_});
  }
  Start start(int rank) const {
    Start start;
    start.rank = rank;
    start.size = size_;
    start.address = coordinator_->address().text();
    start.key = key_;
    return start;
  }
  static protocol::Member member(int rank) {
    protocol::Member m;
    m.rank = rank;
    m.host = "h";
    m.host_name = "here";
    m.pid = 1000 + rank;
    return m;
  }
  static std::vector<std::string> addresses(int rank) { return {"lane0", std::string(rank, '\0')}; }
  std::unique_ptr<Membership> connect(const Start& start) {
    return std::make_unique<Membership>(start, 60);
  }
  // All ranks, joined and introduced.
  std::vector<std::unique_ptr<Membership>> join_all() {
    std::vector<std::unique_ptr<Membership>> all(size_);
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([&, r] {
        all[r] = connect(start(r));
        const auto members = all[r]->join(member(r));
        ASSERT_EQ(static_cast<int>(members.size()), size_);
        for (int i = 0; i < size_; ++i) EXPECT_EQ(members[i].pid, member(i).pid);
        const auto offers = all[r]->offer(40 + r, addresses(r));
        for (int i = 0; i < size_; ++i) EXPECT_EQ(offers[i].memory_fd, 40 + i);
        for (int i = 0; i < size_; ++i) EXPECT_EQ(offers[i].addresses, addresses(i));
        all[r]->ready();
      });
    for (auto& t : threads) t.join();
    return all;
  }

  std::string key_ = random_key();
  int size_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, IntroducesAllRanksAndLetsThemLeave) {
  open(5);
  for (auto& membership : join_all()) membership->leave(0, -1, "");
  EXPECT_TRUE(coordinator_->members().all_gone());
  EXPECT_TRUE(coordinator_->members().deaths().empty());
}

TEST_F(CoordinatorTest, ListensOnlyWhereTold) {
  open(1);
  EXPECT_TRUE(RawConnection(coordinator_->address()).connected());
  EXPECT_FALSE(RawConnection({"127.0.0.2", coordinator_->address().port}).connected());
  EXPECT_THAT(
      [&] {
        Coordinator({coordinator_->address(), 1, key_});
      },
      ThrowsMessage<UsageError>(HasSubstr("cannot listen on 127.0.0.1:")));
}

TEST_F(CoordinatorTest, RefusesAWrongKey) {
  open(1);
  Start wrong = start(0);
  wrong.key = random_key();
  EXPECT_THAT([&] { connect(wrong); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("the coordinator at 127.0.0.1:"),
                                              HasSubstr("refused the job key of rank 0"))));
  join_all();
}

TEST_F(CoordinatorTest, RefusesWhoDoesNotFit) {
  open(2);
  const auto first = connect(start(0));
  std::thread waits([&] { first->join(member(0)); });
  ASSERT_TRUE(eventually([&] { return coordinator_->members().missing() == std::vector{1}; }));
  EXPECT_THAT([&] { connect(start(0))->join(member(0)); },
              ThrowsMessage<UsageError>(HasSubstr("rank 0 is taken: pid 1000 on host here")));
  EXPECT_THAT([&] { connect(start(2))->join(member(2)); },
              ThrowsMessage<UsageError>(HasSubstr("out of range")));
  Start larger = start(1);
  larger.size = 3;
  EXPECT_THAT([&] { connect(larger)->join(member(1)); },
              ThrowsMessage<UsageError>(HasSubstr("counts 3 ranks, but this job has 2")));
  EXPECT_THAT([&] { connect(start(1))->join(member(0)); },
              ThrowsMessage<UsageError>(HasSubstr("must be the one that was proved")));
  const auto second = connect(start(1));  // the mistakes of others did no harm
  second->join(member(1));
  waits.join();
}

TEST_F(CoordinatorTest, NamesTheMissingAtTheDeadline) {
  open(4);
  Membership membership(start(1), 0.2);
  EXPECT_THAT([&] { membership.join(member(1)); },
              ThrowsMessage<TransportError>(HasSubstr("missing are: rank 0, rank 2, rank 3")));
  Start nowhere = start(0);
  coordinator_.reset();
  EXPECT_THAT([&] { Membership(nowhere, 0.2); },
              ThrowsMessage<TransportError>(HasSubstr("no coordinator answers at 127.0.0.1:")));
}

TEST_F(CoordinatorTest, WaitsForACoordinatorThatStartsLater) {
  open(1);
  const Start later = start(0);
  const Address address = coordinator_->address();
  coordinator_.reset();
  std::thread worker([&] { connect(later)->join(member(0)); });
  coordinator_ = std::make_unique<Coordinator>(CoordinatorOptions{address, 1, key_});
  worker.join();
  EXPECT_TRUE(coordinator_->members().missing().empty());
}

TEST_F(CoordinatorTest, TellsOfADeathBeforeAllJoined) {
  open(2);
  coordinator_->members().report_death(1, "it ended with exit status 3");
  EXPECT_THAT([&] { connect(start(0))->join(member(0)); },
              ThrowsMessage<TransportError>(HasSubstr("rank 1 died before all ranks were ready")));
}

TEST_F(CoordinatorTest, TellsSurvivorsWhoDiedOfWhat) {
  open(3);
  auto all = join_all();
  Deaths deaths(3);
  all[0]->watch(deaths);
  all[2].reset();  // closes without leaving
  ASSERT_TRUE(eventually([&] { return deaths.dead(2); }));
  EXPECT_EQ(deaths.reason(2), "its control connection closed");
  coordinator_->members().report_death(1, "killed by signal 11 (SIGSEGV)");
  ASSERT_TRUE(eventually([&] { return deaths.dead(1); }));
  EXPECT_EQ(deaths.reason(1), "killed by signal 11 (SIGSEGV)");
  EXPECT_FALSE(deaths.dead(0));
  all[0]->leave(1, 2, "rank 2 died");
}

TEST_F(CoordinatorTest, TellsWhoLeftInGoodOrderAndKeepsThemApartFromTheDead) {
  open(4);
  auto all = join_all();
  Deaths deaths(4);
  EXPECT_GT(deaths.heard_until(), wall_now()) << "nobody keeps a book yet";
  all[0]->watch(deaths);
  all[1]->leave(Members::kWell, -1, "");
  const double left = wall_now();
  ASSERT_TRUE(eventually([&] { return deaths.heard_until() >= left; }));
  EXPECT_TRUE(deaths.left(1));
  all[2]->leave(Members::kFailed, 3, "rank 3 is gone");
  all[3].reset();  // closes without leaving
  ASSERT_TRUE(eventually([&] { return deaths.dead(3); }));
  EXPECT_FALSE(deaths.left(3));
  EXPECT_FALSE(deaths.left(2)) << "it gave up";
  coordinator_.reset();
  ASSERT_TRUE(eventually([&] { return deaths.dead(2); }));
  EXPECT_FALSE(deaths.dead(1)) << "it had left before the coordinator was lost";
  all[0]->leave(Members::kWell, -1, "");
}

// A coordinator that says nothing is waited for as long as the launcher, which serves it, stands
// still.
TEST(ControlClient, WaitsForALauncherThatWasStopped) {
  RawListener silent;
  Program launcher({"sleep", "1000"});
  launcher.send(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(launcher.pid()) == 'T'; }));
  Start start;
  start.address = silent.address().text();
  start.key = random_key();
  start.launcher_pid = launcher.pid();
  constexpr double kAnswerSeconds = 0.1;
  std::atomic<bool> gave_up{false};
  std::thread worker([&] {
    Countdown time(0);
    EXPECT_THAT([&] { ControlClient(start, time, kAnswerSeconds); },
                ThrowsMessage<TransportError>(HasSubstr("did not answer")));
    gave_up = true;
  });
  silent.accept_one();
  EXPECT_FALSE(eventually([&] { return gave_up.load(); }, 10 * kAnswerSeconds));
  launcher.send(SIGCONT);
  worker.join();
}

TEST_F(CoordinatorTest, ItsLossIsTheDeathOfEveryPeer) {
  open(3);
  auto all = join_all();
  Deaths deaths(3);
  all[1]->watch(deaths);
  coordinator_.reset();
  ASSERT_TRUE(eventually([&] { return deaths.count() == 2; }));
  EXPECT_EQ(deaths.reason(0), "the coordinator, which rank 0 served, was lost");
  EXPECT_EQ(deaths.first(), 0);
  all[1]->leave(0, -1, "");  // no error: there is nobody to tell
}

TEST_F(CoordinatorTest, ShrugsOffGarbage) {
  open(2);
  auto all = join_all();
  Deaths deaths(2);
  all[0]->watch(deaths);
  all[1]->watch(deaths);
  std::string noise(100'000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i >> 3);
  // HTTP's first four bytes and the gigabyte are lengths that no frame has.
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), std::string("\x40\x00\x00\x00", 4),
        noise, std::string("\x00\x00\x00\x04\xff\xff\xff\xff", 8),
        std::string("\xff\xff\xff\xff", 4),
        // A frame that holds a call of "hello" whose nonce claims to have 1 GB.
        std::string("\x00\x00\x00\x18\x80\x01\x00\x01\x00\x00\x00\x05hello\x00\x00\x00\x01\x0b\x00"
                    "\x04\x40\x00"
                    "\x00\x00",
                    28)}) {
    RawConnection stranger(coordinator_->address());
    stranger.say(bytes);
    EXPECT_TRUE(stranger.closed_within(2)) << "after " << bytes.size() << " bytes";
  }
  EXPECT_EQ(deaths.count(), 0);
  all[0]->leave(0, -1, "");
  all[1]->leave(0, -1, "");
  EXPECT_TRUE(coordinator_->members().all_gone());
}

TEST_F(CoordinatorTest, ReapsTheSilentAndKeepsTheOthers) {
  open(2);
  auto all = join_all();
  Deaths deaths(2);
  all[0]->watch(deaths);
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 150; ++i)
    silent.push_back(std::make_unique<RawConnection>(coordinator_->address()));
  const double since = wall_now();
  for (auto& connection : silent)
    EXPECT_TRUE(connection->closed_within(Coordinator::kStrangerSeconds + 60));
  EXPECT_GT(wall_now() - since, Coordinator::kStrangerSeconds - 1);
  EXPECT_EQ(deaths.count(), 0);
  EXPECT_TRUE(coordinator_->members().deaths().empty());
}

// More at once than are let in: the oldest go, and ranks have time to prove themselves.
TEST_F(CoordinatorTest, RanksGetThroughWhileStrangersHammer) {
  open(4);
  std::atomic<bool> done{false};
  std::atomic<int> knocks{0};
  std::thread hammering([&] {
    std::deque<RawConnection> strangers;
    while (!done) {
      strangers.emplace_back(coordinator_->address());
      if (strangers.size() > 500) strangers.pop_front();
      ++knocks;
    }
  });
  EXPECT_TRUE(eventually([&] { return knocks > 1000; }));
  for (auto& membership : join_all()) membership->leave(0, -1, "");
  done = true;
  hammering.join();
  EXPECT_TRUE(coordinator_->members().all_gone());
  EXPECT_TRUE(coordinator_->members().deaths().empty());
}

TEST(ControlHandler, DoesNothingOutOfTurn) {
  const int kVersion = protocol::g_protocol_constants.VERSION;
  Members members(1);
  const std::string key = random_key();
  ControlHandler handler(members, key);
  protocol::Roster roster;
  protocol::News news;
  std::string text;
  EXPECT_THROW(handler.prove(text, text), protocol::Refused);
  EXPECT_THROW(handler.join(protocol::Member()), protocol::Refused);
  EXPECT_THROW(handler.roster(roster, 1, 0), protocol::Refused);
  EXPECT_THROW(handler.offer(3, {}), protocol::Refused);
  EXPECT_THROW(handler.ready(), protocol::Refused);
  EXPECT_THROW(handler.heartbeat(news, 0, 0), protocol::Refused);
  EXPECT_THROW(handler.leave(0, -1, ""), protocol::Refused);
  EXPECT_THROW(handler.hello(text, 99, 0, 1, random_nonce()), protocol::Refused)
      << "another version";
  EXPECT_THROW(handler.hello(text, kVersion, 0, 1, "short"), protocol::Refused);
  handler.hello(text, kVersion, 0, 1, random_nonce());
  EXPECT_THROW(handler.prove(text, std::string(32, 'x')), protocol::Refused);
  EXPECT_THROW(handler.prove(text, std::string(32, 'x')), protocol::Refused) << "one try a nonce";
  EXPECT_FALSE(handler.trusted());
  EXPECT_EQ(members.missing().size(), 1u);
}

// Replies to `method` with 32 bytes, as Thrift frames it.
std::string reply(const std::string& method) {
  std::string frame("\x80\x01\x00\x02\x00\x00\x00\x05", 8);
  frame += method + std::string("\x00\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x20", 11) +
           std::string(32, 'x');
  frame.push_back('\0');
  return std::string("\x00\x00\x00", 3) + static_cast<char>(frame.size()) + frame;
}

TEST_F(CoordinatorTest, AnImpostorIsFoundOut) {
  RawListener impostor;
  std::thread serving([&] {
    impostor.accept_one();
    impostor.answer(reply("hello"));
    impostor.answer(reply("prove"));
  });
  Start victim;
  victim.key = key_;
  victim.address = impostor.address().text();
  EXPECT_THAT([&] { connect(victim); },
              ThrowsMessage<UsageError>(HasSubstr("could not prove that it knows the job key")));
  serving.join();
}

}  // namespace
}  // namespace lockstep
