#include "cluster/task_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = TaskState::Kind;
using Offer = TaskOffer::Kind;

constexpr int kManager = 3;  // of workers 0, 1, 2

void open(TaskBook& book, std::uint64_t round, const RoundRules& rules = {}, double now_s = 0) {
  book.prepare(kManager, round, 3, rules);
  for (std::uint32_t task = 0; task < 3; ++task)
    book.add(kManager, static_cast<int>(task),
             std::vector<std::uint32_t>{10 * task, 10 * task + 1});
  book.begin(kManager, now_s);
}

std::vector<Kind> kinds(TaskBook& book, double now_s) {
  std::vector<Kind> kinds;
  for (const TaskState& task : book.look(kManager, now_s).tasks) kinds.push_back(task.kind);
  return kinds;
}

// The task that the worker gets, or -1.
int taken(TaskBook& book, int worker, double now_s = 0) {
  const auto handed = book.take(worker, now_s);
  return handed.kind == Offer::task ? handed.task : -1;
}

bool report(TaskBook& book, int worker, int task, std::uint64_t round = 0) {
  return book.report(worker, {round, task, 0.5, 2});
}

TEST(TaskBook, GivesEachWorkerItsOwnTaskAndNothingElse) {
  TaskBook book(4);
  EXPECT_EQ(book.take(1, 0).kind, Offer::wait) << "nothing is open yet";
  open(book, 0);
  for (const int worker : {2, 0, 1}) EXPECT_EQ(taken(book, worker), worker);
  EXPECT_EQ(taken(book, 1), 1) << "what it holds, again";
  EXPECT_TRUE(report(book, 1, 1));
  EXPECT_EQ(taken(book, 1), -1);
  EXPECT_EQ(taken(book, kManager), -1);
  EXPECT_FALSE(book.look(kManager, 0).settled());
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_TRUE(report(book, 2, 2));
  const RoundState round = book.look(kManager, 0);
  EXPECT_TRUE(round.settled());
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(round.tasks[k].holder, k);
    EXPECT_EQ(round.tasks[k].issues, 1);
    EXPECT_EQ(round.tasks[k].samples, 2u);
  }
}

TEST(TaskBook, PagesIndicesUntilTheRoundIsOver) {
  TaskBook book(4);
  book.prepare(kManager, 7, 1, {});
  std::vector<std::uint32_t> all(10);
  std::iota(all.begin(), all.end(), 5);
  book.add(kManager, 0, std::span(all).first(6));
  book.add(kManager, 0, std::span(all).last(4));
  EXPECT_TRUE(book.page(7, 0, 0, 4).empty()) << "not begun";
  book.begin(kManager, 0);
  EXPECT_EQ(book.take(0, 0).count, 10u);
  EXPECT_THAT(book.page(7, 0, 0, 4), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(book.page(7, 0, 8, 4), ElementsAre(13, 14));
  EXPECT_TRUE(book.page(7, 0, 10, 4).empty());
  EXPECT_TRUE(book.page(7, 1, 0, 4).empty());
  EXPECT_TRUE(book.page(6, 0, 0, 4).empty());
  open(book, 8);
  EXPECT_TRUE(book.page(7, 0, 0, 4).empty());
}

TEST(TaskBook, ReissuesWhatTheDeadHeld) {
  TaskBook book(4);
  open(book, 0);
  for (int worker = 0; worker < 3; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_EQ(taken(book, 0), -1);
  book.bury(1);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::reported, Kind::open, Kind::out));
  EXPECT_EQ(taken(book, 0), 1);
  EXPECT_EQ(taken(book, 2), 2) << "its own comes first";
  EXPECT_TRUE(report(book, 0, 1));
  EXPECT_TRUE(report(book, 2, 2));
  const RoundState round = book.look(kManager, 0);
  EXPECT_TRUE(round.settled());
  EXPECT_EQ(round.tasks[1].holder, 0);
  EXPECT_EQ(round.tasks[1].issues, 2);
  open(book, 1);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::out, Kind::open, Kind::out))
      << "the dead are dealt nothing";
}

TEST(TaskBook, ReissuesWhatIsOutForTooLong) {
  TaskBook book(4);
  open(book, 0, {.give_up_s = 10}, 100);
  taken(book, 0, 100);
  taken(book, 2, 104);
  EXPECT_DOUBLE_EQ(book.look(kManager, 103).next_in_s, 7);
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_EQ(taken(book, 0, 109), -1);
  EXPECT_EQ(taken(book, 0, 110), 1) << "worker 1 never took it";
  EXPECT_THAT(kinds(book, 113), ElementsAre(Kind::reported, Kind::out, Kind::out));
  EXPECT_THAT(kinds(book, 114), ElementsAre(Kind::reported, Kind::out, Kind::open));
  EXPECT_TRUE(report(book, 0, 1));
  EXPECT_FALSE(report(book, 0, 1)) << "at most one result";
  EXPECT_EQ(taken(book, 0, 115), 2);
  EXPECT_TRUE(report(book, 0, 2));
  EXPECT_FALSE(report(book, 2, 2)) << "late";
  EXPECT_EQ(book.look(kManager, 116).tasks[2].holder, 0);
}

TEST(TaskBook, TakesTheFirstResultWhoeverItIsFrom) {
  TaskBook book(4);
  open(book, 0, {.give_up_s = 10});
  for (int worker = 0; worker < 3; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_EQ(taken(book, 0, 10), 1);
  EXPECT_TRUE(report(book, 1, 1)) << "slow, and still the first";
  EXPECT_FALSE(report(book, 0, 1));
  EXPECT_THAT([&] { report(book, 0, 2); },
              ThrowsMessage<UsageError>(HasSubstr("task 2 of round 0, which it was never given")));
}

TEST(TaskBook, DropsInsteadWhenToldTo) {
  TaskBook book(4);
  open(book, 0, {.give_up_s = 10, .reissue = false});
  for (int worker = 0; worker < 3; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  book.bury(2);
  EXPECT_THAT(kinds(book, 5), ElementsAre(Kind::reported, Kind::out, Kind::dropped));
  EXPECT_THAT(kinds(book, 10), ElementsAre(Kind::reported, Kind::dropped, Kind::dropped));
  EXPECT_TRUE(book.look(kManager, 10).settled());
  EXPECT_FALSE(report(book, 1, 1)) << "dropped for good";
  EXPECT_EQ(taken(book, 0, 10), -1);
}

TEST(TaskBook, IgnoresReportsOfEarlierRounds) {
  TaskBook book(4);
  open(book, 0);
  taken(book, 0);
  open(book, 1);
  EXPECT_FALSE(report(book, 0, 0, 0));
  taken(book, 0);
  EXPECT_TRUE(report(book, 0, 0, 1));
  book.close(kManager);
  EXPECT_FALSE(report(book, 0, 0, 1));
  EXPECT_EQ(book.take(0, 0).kind, Offer::over);
}

TEST(TaskBook, ALostResultIsGivenUp) {
  TaskBook book(4);
  open(book, 0);
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(taken(book, worker) == worker);
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(report(book, worker, worker));
  book.bury(2);
  EXPECT_TRUE(book.look(kManager, 0).settled()) << "what the dead had reported stays";
  book.take_back(kManager, 2, 0);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::reported, Kind::reported, Kind::open));
  EXPECT_EQ(taken(book, 1), 2);
  EXPECT_TRUE(report(book, 1, 2));
}

TEST(TaskBook, OneManagerAndInTurn) {
  TaskBook book(4);
  EXPECT_THAT([&] { book.prepare(kManager, 0, 5, {}); },
              ThrowsMessage<UsageError>(HasSubstr("5 tasks for 4 ranks")));
  EXPECT_THAT([&] { book.begin(kManager, 0); },
              ThrowsMessage<UsageError>(HasSubstr("no round is being prepared")));
  EXPECT_THAT([&] { book.prepare(1, 0, 3, {}); },
              ThrowsMessage<UsageError>(HasSubstr("rank 3 manages the rounds")));
  book.prepare(kManager, 0, 3, {});
  EXPECT_THAT([&] { book.add(kManager, 3, {}); },
              ThrowsMessage<UsageError>(HasSubstr("there is no task 3")));
  book.begin(kManager, 0);
  EXPECT_THAT([&] { book.add(kManager, 0, {}); },
              ThrowsMessage<UsageError>(HasSubstr("no round is being prepared")));
  book.close(kManager);
  EXPECT_THAT([&] { book.prepare(kManager, 1, 3, {}); },
              ThrowsMessage<UsageError>(HasSubstr("no more rounds")));
}

}  // namespace
}  // namespace lockstep
