#include "core/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "core/bytes.h"

namespace lockstep {
namespace {

TEST(Error, ATransportErrorNamesTheRankAtFault) {
  const TransportError error(TransportError::Kind::dead, 3, "rank 3 died: signal 9");
  EXPECT_EQ(error.kind(), TransportError::Kind::dead);
  EXPECT_EQ(error.peer(), 3);
  EXPECT_STREQ(static_cast<const Error&>(error).what(), "rank 3 died: signal 9");
}

TEST(Error, ErrnoBecomesText) {
  errno = ENOENT;
  try {
    throw_errno("open");
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "open: No such file or directory");
  }
}

TEST(Bytes, HollowRunsHaveASizeAndNoData) {
  char a[4] = {1, 2, 3, 4};
  const Bytes real = bytes_of(a), hollow{nullptr, 4};
  EXPECT_TRUE(hollow.hollow());
  EXPECT_FALSE(real.hollow());
  EXPECT_FALSE(Bytes{}.hollow()) << "empty is not hollow";
  EXPECT_TRUE(hollow.part(1, 2).hollow());
  EXPECT_EQ(real.part(1, 2).data, real.data + 1);
  copy(real, hollow);
  copy(hollow, real);
  EXPECT_EQ(a[3], 4) << "a hollow run neither gives nor takes";
}

TEST(Bytes, CopyWantsEqualSizes) {
  char a[4] = {}, b[2] = {7, 8};
  copy(bytes_of(a).part(1, 2), bytes_of(b));
  EXPECT_EQ(a[1], 7);
  EXPECT_EQ(a[2], 8);
  EXPECT_THROW(copy(bytes_of(a), bytes_of(b)), InternalError);
}

}  // namespace
}  // namespace lockstep
