#include "bench/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::bench {
namespace {

using ::testing::ElementsAre;

TEST(Sizes, MultiplyAndAlwaysEndWithTheLargest) {
  EXPECT_THAT(sizes_between(4096, 104857600, 10, 4),
              ElementsAre(4096, 40960, 409600, 4096000, 40960000, 104857600));
  EXPECT_THAT(sizes_between(8, 64, 2, 4), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_between(64, 64, 2, 4), ElementsAre(64));
}

TEST(Sizes, AreWholeElements) { EXPECT_THAT(sizes_between(10, 103, 10, 8), ElementsAre(8, 96)); }

TEST(Sizes, DoNotOverflow) {
  const std::size_t huge = ~std::size_t{0} - 7;
  EXPECT_THAT(sizes_between(huge / 2, huge, 1000, 1), ElementsAre(huge / 2, huge));
}

TEST(Sizes, RefuseWhatCannotBe) {
  EXPECT_THROW(sizes_between(0, 64, 2, 4), UsageError);
  EXPECT_THROW(sizes_between(3, 64, 2, 4), UsageError);
  EXPECT_THROW(sizes_between(65, 64, 2, 4), UsageError);
}

}  // namespace
}  // namespace lockstep::bench
