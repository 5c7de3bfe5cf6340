#include "cluster/placement.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Placement, RanksFillHostsOneByOne) {
  const Placement place{5, 2, 0};
  EXPECT_EQ(place.of(1).host, 0);
  EXPECT_EQ(place.of(4).host, 2);
  EXPECT_EQ(place.of(3).local_rank, 1);
  EXPECT_EQ(place.of(4).local_size, 1);
}

TEST(Placement, GuestsLiveWithTheFirst) {
  const Placement place{5, 1, 2};  // three workers, and servers with two of them
  EXPECT_EQ(place.of(3).host, 0);
  EXPECT_EQ(place.of(4).host, 1);
  EXPECT_EQ(place.of(3).local_rank, 1);
  EXPECT_EQ(place.of(0).local_size, 2);
  EXPECT_EQ(place.of(2).local_size, 1);
}

}  // namespace
}  // namespace lockstep
