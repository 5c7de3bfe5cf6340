#include "core/json_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string nested(int levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(JsonText, NestsAsDeepAsOursAndNoDeeper) {
  EXPECT_TRUE(json_in(nested(64)).is_array());
  EXPECT_TRUE(json_in(nested(65)).is_discarded());
  EXPECT_TRUE(json_in(nested(1000000)).is_discarded());
  EXPECT_TRUE(json_in("{\"a\":" + nested(64) + "}").is_discarded());
}

TEST(JsonText, BracketsInStringsNestNothing) {
  const std::string many(1000, '[');
  EXPECT_EQ(json_in("[\"" + many + "\",\"\\\"" + many + "\"]").size(), 2u);
}

TEST(JsonText, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "[1,", "\"", "{\"a\":1}}", "\xff"})
    EXPECT_TRUE(json_in(text).is_discarded()) << text;
}

TEST(JsonText, ReplacesBytesThatAreNoText) {
  EXPECT_EQ(json_text({{"name", "a\xff"}}), "{\"name\":\"a\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace lockstep
