#include "cluster/verdict.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int kExit1 = 1 << 8;  // as waitpid has it

// A job whose ranks have all come, and that can do without some of them.
class VerdictOnOneThatGoesOn : public testing::Test {
 protected:
  VerdictOnOneThatGoesOn() {
    for (int r = 0; r < members_.size(); ++r) {
      protocol::Member member;
      member.rank = r;
      members_.join(member, members_.size());
      members_.ready(r);
      ends_.push_back({fmt::format("rank {}", r)});
    }
  }
  void killed(int rank) {
    ends_[rank].wait_status = SIGKILL;
    members_.report_death(rank, "it died of signal 9 (SIGKILL)");
  }
  void left(int rank) { members_.leave(rank, Members::kWell, -1, ""); }
  void failed(int rank, int blamed, const std::string& why, int status = Members::kFailed) {
    ends_[rank].wait_status = kExit1;
    members_.leave(rank, status, blamed, why);
  }
  Verdict verdict(int told_to_stop = 0) const { return judge(ends_, members_, true, told_to_stop); }

  Members members_{4};
  std::vector<ProcessEnd> ends_;
};

TEST_F(VerdictOnOneThatGoesOn, ALossIsToldAndNoFailure) {
  killed(1);
  for (const int r : {0, 2, 3}) left(r);
  EXPECT_FALSE(has_failed(members_, true));
  EXPECT_EQ(verdict().status, 0);
  EXPECT_EQ(verdict().sentence,
            "rank 1 was lost: it died of signal 9 (SIGKILL); the others went on");
}

TEST_F(VerdictOnOneThatGoesOn, WhoIsBlamedIsNamedAndNotAnEarlierLoss) {
  killed(1);
  killed(3);
  failed(0, 3, "rank 3 died: its process is gone");
  failed(2, 3, "server 0 (rank 3) is gone");
  EXPECT_TRUE(has_failed(members_, true));
  EXPECT_EQ(verdict().status, 137);
  EXPECT_EQ(verdict().sentence,
            "rank 3 died of signal 9 (SIGKILL), and rank 2 gave up: server 0 (rank 3) is gone; the "
            "others ended too");
}

TEST_F(VerdictOnOneThatGoesOn, ADeathIsNotToldTwice) {
  killed(1);
  failed(0, 1, "rank 1 died: its process is gone");
  EXPECT_EQ(verdict().sentence, "rank 1 died of signal 9 (SIGKILL); the others ended too");
}

TEST_F(VerdictOnOneThatGoesOn, WhoFailsByItselfIsOneMoreLoss) {
  killed(1);
  failed(2, -1, "its gradient is not finite");
  left(0);
  left(3);
  EXPECT_EQ(verdict().status, 0);
}

TEST_F(VerdictOnOneThatGoesOn, AReasonToStopAllStopsAll) {
  killed(1);
  failed(2, -1, "audit: the mean is wrong", Members::kStopsAll);
  EXPECT_TRUE(has_failed(members_, true));
  ends_[0] = {"rank 0", SIGTERM, true};
  ends_[3] = {"rank 3", SIGTERM, true};
  EXPECT_EQ(verdict().status, 137);
  EXPECT_EQ(verdict().sentence, "rank 2 failed: audit: the mean is wrong; the others were stopped");
}

TEST_F(VerdictOnOneThatGoesOn, AfterALossOneCanStillStopIt) {
  killed(1);
  for (const int r : {0, 2, 3}) ends_[r] = {fmt::format("rank {}", r), SIGTERM, true};
  failed(0, 3, "rank 3 is gone");  // it saw that before it was stopped itself
  ends_[0].wait_status = SIGTERM;
  members_.report_death(3, "its control connection closed");
  EXPECT_EQ(verdict(SIGINT).status, 130);
  EXPECT_THAT(verdict(SIGINT).sentence,
              AllOf(StartsWith("told to stop by SIGINT"), HasSubstr("rank 1 was lost before"),
                    Not(HasSubstr("rank 3"))));
}

TEST_F(VerdictOnOneThatGoesOn, WhoFailsAfterItHasLeftIsNamed) {
  for (int r = 0; r < 4; ++r) left(r);
  ends_[2].wait_status = kExit1;
  EXPECT_THAT(verdict().sentence, StartsWith("rank 2 was lost: it ended with exit status 1"));
  const Verdict strict = judge(ends_, members_, false, 0);
  EXPECT_EQ(strict.status, 1);
  EXPECT_THAT(strict.sentence, StartsWith("rank 2 ended with exit status 1"));
}

}  // namespace
}  // namespace lockstep
