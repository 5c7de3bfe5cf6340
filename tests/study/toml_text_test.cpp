#include "study/toml_text.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace lockstep::study {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string key_of(int dots) {
  std::string key = "a";
  for (int i = 0; i < dots; ++i) key += ".a";
  return key;
}

TEST(TomlText, AKeyOfManyDotsIsRefusedWithItsLine) {
  for (const std::string& line : {key_of(17) + " = 1", "[" + key_of(17) + "]",
                                  "x = { " + key_of(17) + " = 1 }", "'a'" + key_of(17).substr(1)})
    EXPECT_THAT([&] { toml_in("# " + key_of(99) + "\n" + line + "\n", "f.toml"); },
                ThrowsMessage<UsageError>(HasSubstr("f.toml:2: a key has more than 16 dots")))
        << line;
}

TEST(TomlText, DotsThatAreNoKeysCountForNothing) {
  const std::string dots(100, '.');
  const toml::table table = toml_in(key_of(16) + " = 1\none = '" + dots + "' # " + dots +
                                        "\ntwo = \"\\\"" + dots + "\"\nthree = '''\n" + dots +
                                        "\n'''\nfour = \"\"\"\\\"" + dots + "\n\"\" " + dots +
                                        "\"\"\"\nfive = [1.5, 2.5, 3.5, 1.5, 2.5, 3.5, 1.5, 2.5, "
                                        "3.5, 1.5, 2.5, 3.5, 1.5, 2.5, 3.5, 1.5, 2.5, 3.5]\n",
                                    "f.toml");
  EXPECT_EQ(table.size(), 6u);
}

TEST(TomlText, WhatIsNoTomlIsToldWithItsLine) {
  for (const char* line : {"x = ", "x = 'a", "x = \"", "[x", "x = [[[["})
    EXPECT_THAT([&] { toml_in(std::string("y = 1\n") + line, "f.toml"); },
                ThrowsMessage<UsageError>(HasSubstr("f.toml:2: ")))
        << line;
}

}  // namespace
}  // namespace lockstep::study
