#include "strategies/rounds/task_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = TaskState::Kind;

constexpr int kWorkers = 3;

std::vector<Kind> kinds(TaskBook& book, double now_s) {
  std::vector<Kind> kinds;
  for (const TaskState& task : book.look(now_s)) kinds.push_back(task.kind);
  return kinds;
}

// The task that the worker gets, or -1.
int taken(TaskBook& book, int worker, double now_s = 0) {
  return book.take(worker, now_s).value_or(-1);
}

bool report(TaskBook& book, int worker, int task, std::uint64_t round = 0) {
  return book.report(worker, round, task, 0.5, 2);
}

TEST(TaskBook, GivesEachWorkerItsOwnTaskAndNothingElse) {
  TaskBook book(kWorkers, {});
  EXPECT_EQ(taken(book, 1), -1) << "nothing is open yet";
  book.open(0, 0);
  for (const int worker : {2, 0, 1}) EXPECT_EQ(taken(book, worker), worker);
  EXPECT_EQ(taken(book, 1), 1) << "what it holds, again";
  EXPECT_TRUE(report(book, 1, 1));
  EXPECT_EQ(taken(book, 1), -1);
  EXPECT_FALSE(book.settled(0));
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_TRUE(report(book, 2, 2));
  EXPECT_TRUE(book.settled(0));
  for (int k = 0; k < kWorkers; ++k) {
    const TaskState& task = book.look(0)[k];
    EXPECT_EQ(task.holder, k);
    EXPECT_EQ(task.issues, 1);
    EXPECT_EQ(task.loss, 0.5);
    EXPECT_EQ(task.samples, 2u);
  }
}

TEST(TaskBook, ReissuesWhatTheDeadHeld) {
  TaskBook book(kWorkers, {});
  book.open(0, 0);
  for (int worker = 0; worker < kWorkers; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_EQ(taken(book, 0), -1);
  book.bury(1);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::reported, Kind::open, Kind::out));
  EXPECT_EQ(taken(book, 0), 1);
  EXPECT_EQ(taken(book, 2), 2) << "its own comes first";
  EXPECT_TRUE(report(book, 0, 1));
  EXPECT_TRUE(report(book, 2, 2));
  EXPECT_TRUE(book.settled(0));
  EXPECT_EQ(book.look(0)[1].holder, 0);
  EXPECT_EQ(book.look(0)[1].issues, 2);
  book.open(1, 0);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::out, Kind::open, Kind::out))
      << "the dead are dealt nothing";
}

TEST(TaskBook, ReissuesWhatIsOutForTooLong) {
  TaskBook book(kWorkers, {.give_up_s = 10});
  book.open(0, 100);
  taken(book, 0, 100);
  taken(book, 2, 104);
  EXPECT_DOUBLE_EQ(book.next_in_s(103), 7);
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
  EXPECT_EQ(book.look(116)[2].holder, 0);
}

TEST(TaskBook, NoTimeIsTooLongUnlessToldSo) {
  TaskBook book(kWorkers, {});
  book.open(0, 0);
  taken(book, 0);
  EXPECT_EQ(book.next_in_s(0), std::numeric_limits<double>::infinity());
  EXPECT_THAT(kinds(book, 1e9), ElementsAre(Kind::out, Kind::out, Kind::out));
}

TEST(TaskBook, TakesTheFirstResultWhoeverItIsFrom) {
  TaskBook book(kWorkers, {.give_up_s = 10});
  book.open(0, 0);
  for (int worker = 0; worker < kWorkers; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  EXPECT_EQ(taken(book, 0, 10), 1);
  EXPECT_TRUE(report(book, 1, 1)) << "slow, and still the first";
  EXPECT_FALSE(report(book, 0, 1));
}

TEST(TaskBook, TakesNoResultOfAnotherTask) {
  TaskBook book(kWorkers, {});
  book.open(0, 0);
  taken(book, 0);
  for (const int task : {2, 3, -1})
    EXPECT_THAT([&] { report(book, 0, task); },
                ThrowsMessage<InternalError>(
                    HasSubstr(fmt::format("task {} of round 0, which it was never given", task))));
}

TEST(TaskBook, DropsInsteadWhenToldTo) {
  TaskBook book(kWorkers, {.give_up_s = 10, .reissue = false});
  book.open(0, 0);
  for (int worker = 0; worker < kWorkers; ++worker) taken(book, worker);
  EXPECT_TRUE(report(book, 0, 0));
  book.bury(2);
  EXPECT_THAT(kinds(book, 5), ElementsAre(Kind::reported, Kind::out, Kind::dropped));
  EXPECT_THAT(kinds(book, 10), ElementsAre(Kind::reported, Kind::dropped, Kind::dropped));
  EXPECT_TRUE(book.settled(10));
  EXPECT_FALSE(report(book, 1, 1)) << "dropped for good";
  EXPECT_EQ(taken(book, 0, 10), -1);
}

TEST(TaskBook, IgnoresReportsOfEarlierRounds) {
  TaskBook book(kWorkers, {});
  book.open(0, 0);
  taken(book, 0);
  book.open(1, 0);
  EXPECT_FALSE(report(book, 0, 0, 0));
  taken(book, 0);
  EXPECT_TRUE(report(book, 0, 0, 1));
}

TEST(TaskBook, ALostResultIsGivenUp) {
  TaskBook book(kWorkers, {});
  book.open(0, 0);
  for (int worker = 0; worker < kWorkers; ++worker) EXPECT_EQ(taken(book, worker), worker);
  for (int worker = 0; worker < kWorkers; ++worker) EXPECT_TRUE(report(book, worker, worker));
  book.bury(2);
  EXPECT_TRUE(book.settled(0)) << "what the dead had reported stays";
  book.take_back(2);
  EXPECT_THAT(kinds(book, 0), ElementsAre(Kind::reported, Kind::reported, Kind::open));
  EXPECT_EQ(taken(book, 1), 2);
  EXPECT_TRUE(report(book, 1, 2));
}

}  // namespace
}  // namespace lockstep
