// Figures as people read them.
#include "core/words.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Words, Times) {
  EXPECT_EQ(time_in_words(0), "0 s");
  EXPECT_EQ(time_in_words(5.73e-7), "0.573 us");
  EXPECT_EQ(time_in_words(0.00123), "1.23 ms");
  EXPECT_EQ(time_in_words(12.34), "12.3 s");
  EXPECT_EQ(time_in_words(200), "3 min 20 s");
  EXPECT_EQ(time_in_words(7500), "2 h 5 min");
}

TEST(Words, Bytes) {
  EXPECT_EQ(bytes_in_words(12), "12 B");
  EXPECT_EQ(bytes_in_words(1234567), "1.2 MB");
}

}  // namespace
}  // namespace lockstep
