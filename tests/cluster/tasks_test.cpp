// Both boards over one contract: over the coordinator's service, and in a shared process.
#include "cluster/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "cluster/Control.h"
#include "cluster/coordinator.h"
#include "cluster/job_key.h"
#include "cluster/remote_tasks.h"
#include "cluster/shared_tasks.h"
#include "cluster/sockets.h"
#include "core/error.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = TaskState::Kind;

constexpr int kRanks = 4, kManager = 3;
using Lists = std::vector<std::vector<std::uint32_t>>;

// Ranks that have joined a coordinator, each with its board.
class Joined {
 public:
  Joined() {
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) threads.emplace_back([this, r] { join(r); });
    for (std::thread& t : threads) t.join();
  }
  TaskBoard& at(int rank) { return *boards_[rank]; }
  Membership& membership(int rank) { return *all_[rank]; }
  Members& members() { return coordinator_.members(); }
  void go(int rank) { all_[rank].reset(); }

 private:
  void join(int rank) {
    Start start;
    start.rank = rank;
    start.size = kRanks;
    start.address = coordinator_.address().text();
    start.key = key_;
    protocol::Member me;
    me.rank = rank;
    all_[rank] = std::make_unique<Membership>(start, 10);
    all_[rank]->join(me);
    all_[rank]->offer(-1, {});
    all_[rank]->ready();
    boards_[rank] = std::make_unique<RemoteTasks>(*all_[rank]);
  }

  std::string key_ = random_key();
  Coordinator coordinator_{{{"127.0.0.1", 0}, kRanks, key_}};
  std::unique_ptr<Membership> all_[kRanks];
  std::unique_ptr<RemoteTasks> boards_[kRanks];
};

Lists lists(std::size_t first) {
  Lists lists(3);
  lists[0].resize(first);
  std::iota(lists[0].begin(), lists[0].end(), 7);
  lists[1] = {1, 2, 3};
  return lists;  // and nothing for the last
}

// What any board must do: long lists arrive whole, and one result a task counts.
void keeps_the_contract(const std::function<TaskBoard&(int rank)>& at) {
  EXPECT_EQ(at(1).take().kind, TaskOffer::Kind::wait);
  const Lists tasks = lists(20'003);
  at(kManager).open(5, tasks, {.give_up_s = 1e6});
  for (int worker = 0; worker < kManager; ++worker) {
    const TaskOffer offer = at(worker).take();
    ASSERT_EQ(offer.kind, TaskOffer::Kind::task);
    EXPECT_EQ(offer.task.round, 5u);
    EXPECT_EQ(offer.task.number, worker);
    EXPECT_EQ(offer.task.indices, tasks[worker]);
  }
  EXPECT_TRUE(at(0).report({5, 0, 0.25, 20'003}));
  EXPECT_FALSE(at(0).report({5, 0, 0.25, 20'003}));
  EXPECT_TRUE(at(1).report({5, 1, 1.5, 3}));
  EXPECT_EQ(at(0).take().kind, TaskOffer::Kind::wait);
  at(kManager).bury(2);
  RoundState state = at(kManager).look();
  EXPECT_EQ(state.round, 5u);
  ASSERT_EQ(state.tasks.size(), 3u);
  EXPECT_EQ(state.tasks[0].loss, 0.25);
  EXPECT_EQ(state.tasks[1].samples, 3u);
  EXPECT_EQ(state.tasks[2].kind, Kind::open);
  EXPECT_FALSE(state.settled());
  EXPECT_EQ(at(1).take().task.number, 2);
  EXPECT_TRUE(at(1).report({5, 2, 0, 0}));
  EXPECT_TRUE(at(kManager).look().settled());
  at(kManager).take_back(1);
  EXPECT_EQ(at(kManager).look().tasks[1].kind, Kind::open);
  EXPECT_THAT([&] { at(0).look(); }, ThrowsMessage<UsageError>(HasSubstr("rank 3 manages")));
  at(kManager).close();
  EXPECT_EQ(at(0).take().kind, TaskOffer::Kind::over);
}

TEST(RemoteTasks, KeepTheContract) {
  Joined ranks;
  keeps_the_contract([&](int rank) -> TaskBoard& { return ranks.at(rank); });
}

TEST(RemoteTasks, GoBesideTheHeartbeats) {
  Joined ranks;
  std::vector<std::unique_ptr<Deaths>> deaths;
  for (int r = 0; r < kRanks; ++r) {
    deaths.push_back(std::make_unique<Deaths>(kRanks));
    ranks.membership(r).watch(*deaths.back());
  }
  // For as long as a few heartbeats take.
  std::uint64_t round = 0;
  for (const double until = wall_now() + 5 * Membership::kHeartbeatSeconds; wall_now() < until;) {
    ranks.at(kManager).open(++round, lists(9000), {});
    for (int worker = 0; worker < kManager; ++worker) {
      ASSERT_EQ(ranks.at(worker).take().task.indices, lists(9000)[worker]);
      ASSERT_TRUE(ranks.at(worker).report({round, worker, 1, 1}));
    }
    ASSERT_TRUE(ranks.at(kManager).look().settled());
  }
  for (int r = 0; r < kRanks; ++r) ranks.membership(r).leave(0, -1, "");
  EXPECT_TRUE(ranks.members().deaths().empty());
}

TEST(RemoteTasks, TheCoordinatorGivesTheDeadUp) {
  Joined ranks;
  ranks.at(kManager).open(0, lists(10), {});
  for (int worker = 0; worker < kManager; ++worker) ranks.at(worker).take();
  ranks.members().report_death(0, "killed by signal 9 (SIGKILL)");
  ranks.membership(1).leave(0, -1, "");
  const RoundState state = ranks.at(kManager).look();
  EXPECT_EQ(state.tasks[0].kind, Kind::open) << "died";
  EXPECT_EQ(state.tasks[1].kind, Kind::open) << "left";
  EXPECT_EQ(state.tasks[2].kind, Kind::out);
}

TEST(RemoteTasks, AnswersFitIntoAFrame) {
  constexpr int kMany = 1200;
  const std::string key = random_key();
  const Coordinator coordinator({{"127.0.0.1", 0}, kMany, key});
  Start start;
  start.rank = kMany - 1;
  start.size = kMany;
  start.address = coordinator.address().text();
  start.key = key;
  Countdown time(10);
  ControlClient client(start, time);
  protocol::Member me;
  me.rank = start.rank;
  client.join(me);
  std::size_t seen = 0;
  client.call([&](protocol::ControlIf& control) {
    control.prepare_round(0, kMany - 1, 0, true);
    control.begin_round();
    for (protocol::Round round; seen < kMany - 1; seen += round.tasks.size()) {
      round = {};
      control.look_at_round(round, static_cast<int>(seen));
      ASSERT_EQ(round.count, kMany - 1);
      ASSERT_FALSE(round.tasks.empty());
      EXPECT_EQ(round.tasks[0].holder, static_cast<int>(seen));
    }
  });
  EXPECT_EQ(seen, kMany - 1u);
  EXPECT_THAT(
      [&] { client.call([](protocol::ControlIf& control) { control.add_indices(0, "12345"); }); },
      ThrowsMessage<UsageError>(HasSubstr("5 bytes of indices")));
}

TEST(SharedTasks, KeepTheContract) {
  TaskBook book(kRanks);
  // One thread plays all ranks: what matters is who asks.
  std::vector<Rank*> ranks(kRanks);
  std::atomic<int> here = 0;
  std::atomic<bool> done = false;
  run_loopback(kRanks, [&](Rank& rank) {
    ranks[rank.rank()] = &rank;
    ++here;
    while (here < kRanks) std::this_thread::yield();
    if (rank.rank() == 0) {
      std::vector<std::unique_ptr<SharedTasks>> boards;
      for (Rank* r : ranks) boards.push_back(std::make_unique<SharedTasks>(book, *r, 0.001));
      keeps_the_contract([&](int r) -> TaskBoard& { return *boards[r]; });
      done = true;
    }
    while (!done) std::this_thread::yield();
  });
}

}  // namespace
}  // namespace lockstep
