#include "core/names.h"

#include <gmock/gmock.h>

#include <vector>

#include "core/error.h"

namespace lockstep {
namespace {

const std::vector<std::string_view> kCollectives{"ring", "ring-reduce", "tree", "halving-doubling"};

TEST(Names, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("ring", "rings"), 1u);
  EXPECT_EQ(edit_distance("ring", "rang"), 1u);
  EXPECT_EQ(edit_distance("ring", "irng"), 1u) << "two neighbours swapped are one slip";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Names, NearestIsTheOneMeantOrNone) {
  EXPECT_EQ(nearest("rng", kCollectives), "ring");
  EXPECT_EQ(nearest("halving", kCollectives), "halving-doubling");
  EXPECT_EQ(nearest("ring_reduce", kCollectives), "ring-reduce");
  EXPECT_EQ(nearest("butterfly", kCollectives), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Names, TheSentence) {
  const auto said = [](std::string_view name) {
    try {
      throw_unknown("collective", name, kCollectives);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said("rng"),
            "unknown collective 'rng': did you mean 'ring'? "
            "valid: ring, ring-reduce, tree, halving-doubling");
  EXPECT_EQ(said("zzzzzz"),
            "unknown collective 'zzzzzz': valid: ring, ring-reduce, tree, halving-doubling");
  EXPECT_THAT([] { throw_unknown("key", "p", {}); },
              ::testing::ThrowsMessage<UsageError>("unknown key 'p': there is none"));
}

}  // namespace
}  // namespace lockstep
