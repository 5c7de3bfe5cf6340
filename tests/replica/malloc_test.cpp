#include "replica/malloc.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

namespace lockstep {
namespace {

TEST(Malloc, LargeBlocksStayWithTheProcess) {
  keep_freed_memory();
  constexpr std::size_t kLarge = 300u << 20;
  const std::size_t mapped = mallinfo2().hblks;
  void* block = std::malloc(kLarge);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(mallinfo2().hblks, mapped) << "not a mapping of its own";
  std::free(block);
  EXPECT_GE(mallinfo2().fordblks, kLarge) << "free, and kept for the next step";
}

}  // namespace
}  // namespace lockstep
