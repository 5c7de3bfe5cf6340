#include "core/slices.h"

#include <gtest/gtest.h>

#include "core/rng.h"

namespace lockstep {
namespace {

TEST(Slices, RaggedChunksGiveOneMoreToTheFirst) {
  EXPECT_EQ(chunk(10, 4, 0), (Slice{0, 3}));
  EXPECT_EQ(chunk(10, 4, 1), (Slice{3, 3}));
  EXPECT_EQ(chunk(10, 4, 2), (Slice{6, 2}));
  EXPECT_EQ(chunk(10, 4, 3), (Slice{8, 2}));
  EXPECT_EQ(chunk(2, 4, 3), (Slice{2, 0})) << "fewer elements than chunks";
  EXPECT_EQ(chunk(0, 3, 1), (Slice{0, 0}));
}

TEST(Slices, ChunksTileTheBuffer) {
  Rng random(1, 0, purpose_of("slices"));
  for (int trial = 0; trial < 500; ++trial) {
    const std::size_t count = random.below(trial % 2 ? 50 : 1'000'000'000'000);
    const int m = 1 + static_cast<int>(random.below(40));
    std::size_t at = 0;
    for (int c = 0; c < m; ++c) {
      const Slice s = chunk(count, m, c);
      EXPECT_EQ(s.begin, at);
      EXPECT_EQ(s.count, count / m + (static_cast<std::size_t>(c) < count % m));
      at = s.end();
    }
    EXPECT_EQ(at, count);
    const int first = static_cast<int>(random.below(m));
    const int many = static_cast<int>(random.below(m - first + 1));
    const Slice joined = chunks(count, m, first, many);
    EXPECT_EQ(joined.begin, chunk(count, m, first).begin);
    if (many > 0) {
      EXPECT_EQ(joined.end(), chunk(count, m, first + many - 1).end());
    } else {
      EXPECT_EQ(joined.count, 0u);
    }
  }
}

TEST(Slices, PiecesTileTheWhole) {
  EXPECT_TRUE(pieces({7, 0}, 3).empty());
  EXPECT_EQ(pieces({7, 7}, 3), (std::vector<Slice>{{7, 3}, {10, 3}, {13, 1}}));
  EXPECT_EQ(pieces({7, 6}, 3), (std::vector<Slice>{{7, 3}, {10, 3}}));
  EXPECT_EQ(pieces({7, 6}, 100), (std::vector<Slice>{{7, 6}}));
}

}  // namespace
}  // namespace lockstep
