#include "measure/posted.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace {

struct Pair {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
};

TEST(Posted, IsSeenWhole) {
  Posted<Pair> posted;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) posted.post({i, i, i, i});
  });
  Pair seen;
  int torn = 0;
  while (seen.a < 200000) {
    posted.look(seen);
    torn += seen.a != seen.b || seen.b != seen.c || seen.c != seen.d;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST(Posted, TheLatestIsSeenOnceNobodyWrites) {
  Posted<Pair> posted;
  Pair seen{9, 9, 9, 9};
  EXPECT_TRUE(posted.look(seen));
  EXPECT_EQ(seen.d, 0u);
  posted.post({1, 2, 3, 4});
  posted.post({5, 6, 7, 8});
  EXPECT_TRUE(posted.look(seen));
  EXPECT_EQ(seen.a, 5u);
  EXPECT_EQ(seen.d, 8u);
}

}  // namespace
}  // namespace lockstep
