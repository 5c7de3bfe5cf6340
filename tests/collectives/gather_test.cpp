#include "collectives/gather.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "transport/fabric.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using Rows = std::vector<std::vector<double>>;

TEST(Gather, BringsAllToTheFirst) {
  run_loopback(3, [](Rank& rank) {
    const double r = rank.rank();
    const auto texts = gather_texts(rank.peers, std::string(rank.rank(), 'x'));
    const Rows rows = rows_at_first(rank.peers, std::vector<double>(rank.rank(), r));
    if (rank.rank() != 0) return;
    EXPECT_THAT(texts, ElementsAre("", "x", "xx"));
    EXPECT_EQ(rows, (Rows{{}, {1}, {2, 2}}));
  });
}

TEST(Gather, BringsTheFirstRanksTextToAll) {
  run_loopback(3, [](Rank& rank) {
    const std::string mine = std::string(3, 'x') + std::to_string(rank.rank());
    EXPECT_EQ(text_of_first(rank.peers, mine), "xxx0");
  });
}

TEST(Gather, DoesWithoutThoseThatAreGoneWhereItMay) {
  run_loopback(3, [](Rank& rank) {
    if (rank.rank() == 1) return;
    std::set<int> gone;
    const Rows rows = rows_at_first(rank.peers, {1, 2}, &gone);
    const auto texts = gather_texts(rank.peers, "here", &gone);
    if (rank.rank() != 0) return;
    EXPECT_THAT(gone, ElementsAre(1));
    EXPECT_EQ(rows, (Rows{{1, 2}, {}, {1, 2}}));
    EXPECT_THAT(texts, ElementsAre("here", "", "here"));
  });
}

TEST(Gather, ElseTheyAreAnError) {
  run_loopback(2, [](Rank& rank) {
    if (rank.rank() == 1) return;
    EXPECT_THROW(gather_texts(rank.peers, "here"), TransportError);
  });
}

}  // namespace
}  // namespace lockstep
