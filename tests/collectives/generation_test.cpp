#include "collectives/generation.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "transport/fabric.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Generation, OfAWholeJobAreAllItsRanks) {
  run_loopback(3, [](Rank& rank) {
    const Generation members(rank.peers, 2, false);
    EXPECT_EQ(&members.present(), &rank.peers);
    EXPECT_EQ(members.leads(), rank.rank() == 0);
    EXPECT_THAT(members.working(), ElementsAre(0, 1));
    EXPECT_THAT(members.lost(), IsEmpty());
    if (rank.rank() < 2) {
      EXPECT_EQ(members.workers().size(), 2);
    }
  });
}

TEST(Generation, AreLedByTheirManager) {
  run_loopback(3, [](Rank& rank) {
    const Generation members(rank.peers, 2, true);
    EXPECT_EQ(members.leads(), rank.rank() == 2);
    EXPECT_EQ(members.present().job_rank(0), 2);
  });
}

TEST(Generation, GoOnWithoutThoseThatAreGone) {
  run_loopback(4, [](Rank& rank) {
    if (rank.rank() == 0 || rank.rank() == 2) return;
    const Generation members = Generation(rank.peers, 3, false).survivors();
    EXPECT_THAT(members.lost(), ElementsAre(0, 2));
    EXPECT_THAT(members.working(), ElementsAre(1));
    EXPECT_EQ(members.first_worker(), 1);
    EXPECT_EQ(members.leads(), rank.rank() == 1);
    EXPECT_EQ(members.present().size(), 2);
    members.meet();
  });
}

TEST(Generation, AreNoneWithoutAWorkerOrTheManager) {
  run_loopback(2, [](Rank& rank) {
    if (rank.rank() == 0) return;
    const Generation members(rank.peers, 1, false);
    EXPECT_THAT([&] { members.survivors(); }, ThrowsMessage<TransportError>(HasSubstr("workers")));
  });
  run_loopback(2, [](Rank& rank) {
    if (rank.rank() == 1) return;
    const Generation members(rank.peers, 1, true);
    EXPECT_THAT([&] { members.survivors(); }, ThrowsMessage<TransportError>(HasSubstr("manager")));
  });
}

}  // namespace
}  // namespace lockstep::testing
