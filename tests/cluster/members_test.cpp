#include "cluster/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

protocol::Member member(int rank, int pid = 100) {
  protocol::Member m;
  m.rank = rank;
  m.host = "h";
  m.host_name = "there";
  m.pid = pid;
  return m;
}

void join_all(Members& members) {
  for (int r = 0; r < members.size(); ++r) members.join(member(r), members.size());
}

void pass(Members& members, int ticks) {
  for (int i = 0; i < ticks; ++i) members.tick();
}

TEST(Members, RefusesWhoDoesNotFit) {
  Members members(3);
  members.join(member(1, 41), 3);
  EXPECT_THAT([&] { members.join(member(1, 42), 3); },
              ThrowsMessage<UsageError>(HasSubstr("rank 1 is taken: pid 41 on host there")));
  EXPECT_THAT([&] { members.join(member(3), 3); },
              ThrowsMessage<UsageError>(HasSubstr("ranks 0 to 2")));
  EXPECT_THAT([&] { members.join(member(-1), 3); },
              ThrowsMessage<UsageError>(HasSubstr("out of range")));
  EXPECT_THAT([&] { members.join(member(0), 4); },
              ThrowsMessage<UsageError>(HasSubstr("this job has 3")));
  EXPECT_EQ(members.missing(), (std::vector<int>{0, 2}));
}

TEST(Members, TheLaunchersReasonWinsOverAClosedConnection) {
  Members members(2);
  join_all(members);
  members.closed(1);
  pass(members, 2);
  EXPECT_TRUE(members.deaths().empty()) << "too early to say why";
  members.report_death(1, "killed by signal 9 (SIGKILL)");
  pass(members, 10);
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].reason, "killed by signal 9 (SIGKILL)");
}

// A launcher that gets no processor for a while looks at its children late.
TEST(Members, TheLaunchersReasonWinsAlsoWhenItComesLate) {
  Members members(3);
  join_all(members);
  members.closed(1);
  pass(members, Members::kClosedTicks + 1);
  members.report_death(1, "killed by signal 9 (SIGKILL)");
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].reason, "killed by signal 9 (SIGKILL)");
  members.report_death(1, "it ended with exit status 1");
  EXPECT_EQ(members.deaths()[0].reason, "killed by signal 9 (SIGKILL)") << "one end is enough";
  pass(members, Members::kSilentTicks + 1);
  members.report_death(2, "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(members.deaths().size(), 3u);
  for (const auto& death : members.deaths())
    EXPECT_THAT(death.reason, HasSubstr(death.rank == 1 ? "SIGKILL" : "silent"));
}

// More than one reply has room for: who asks here is told of all, and who asks from afar asks
// again.
TEST(Members, NoDeathIsForgottenHoweverManyThereAre) {
  Members members(100);
  join_all(members);
  for (int r = 0; r < 100; ++r) members.report_death(r, "killed");
  ASSERT_EQ(members.deaths().size(), 100u);
  EXPECT_EQ(members.deaths(60).at(0).rank, 60);
  std::size_t told = 0;
  for (bool more = true; more;) {
    const protocol::News news = members.news(static_cast<int>(told), 0);
    told += news.deaths.size();
    more = news.more;
  }
  EXPECT_EQ(told, 100u);
}

TEST(Members, AClosedConnectionIsADeathInTheEnd) {
  Members members(2);
  join_all(members);
  members.closed(0);
  pass(members, Members::kClosedTicks + 1);
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].rank, 0);
  EXPECT_EQ(members.deaths()[0].reason, "its control connection closed");
  EXPECT_TRUE(members.deaths(1).empty());
}

TEST(Members, SurvivorsAreNotBlamed) {
  Members members(3);
  join_all(members);
  members.leave(0, 1, 2, "rank 2 died");  // it saw the death before the coordinator did
  members.closed(0);
  members.report_death(0, "it ended with exit status 1");
  members.report_death(2, "killed by signal 9 (SIGKILL)");
  members.leave(1, 1, 2, "rank 2 died");
  pass(members, 10);
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].rank, 2);
  EXPECT_EQ(members.survivors().size(), 2u);
  EXPECT_TRUE(members.all_gone());
}

TEST(Members, WhoFailsByItselfIsDead) {
  Members members(2);
  join_all(members);
  members.leave(1, 1, -1, "no such data set");
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].reason, "no such data set");
}

TEST(Members, SilenceIsADeath) {
  Members members(2);
  join_all(members);
  for (int i = 0; i < Members::kSilentTicks + 1; ++i) {
    members.heard_from(0);
    members.tick();
  }
  ASSERT_EQ(members.deaths().size(), 1u);
  EXPECT_EQ(members.deaths()[0].rank, 1);
  EXPECT_EQ(members.deaths()[0].reason, "it was silent for 10 s");
}

TEST(Members, LeavingInGoodOrderIsNoDeath) {
  Members members(2);
  join_all(members);
  members.leave(0, 0, -1, "");
  members.closed(0);
  members.report_end(0);
  members.leave(1, 0, -1, "");
  pass(members, 2 * Members::kSilentTicks);
  EXPECT_TRUE(members.deaths().empty());
  EXPECT_TRUE(members.all_gone());
}

TEST(Members, ARosterOfManyComesInPages) {
  Members members(100);
  for (int r = 0; r < 100; ++r) {
    members.join(member(r), 100);
    members.offer(r, 5, {std::string(2000, 'a'), std::string(2000, 'b')});
  }
  int pages = 0;
  for (int have = 0; have < 100; ++pages) {
    const auto page = members.page(have);
    ASSERT_FALSE(page.empty());
    for (const auto& m : page) EXPECT_EQ(m.rank, have++);
  }
  EXPECT_GT(pages, 5);
}

TEST(Members, RefusesAnIntroductionThatDoesNotFit) {
  Members members(1);
  auto m = member(0);
  m.host_name = std::string(5000, 'a');
  EXPECT_THROW(members.join(m, 1), UsageError);
  members.join(member(0), 1);
  EXPECT_THROW(members.offer(0, 5, {std::string(5000, 'a')}), UsageError);
  EXPECT_THROW(members.offer(0, 5, std::vector<std::string>(9)), UsageError);
  EXPECT_EQ(members.missing(2), std::vector{0});
}

}  // namespace
}  // namespace lockstep
