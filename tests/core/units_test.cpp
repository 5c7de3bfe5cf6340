#include "core/units.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

TEST(Units, Sizes) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("64"), 64u);
  EXPECT_EQ(parse_size("4K"), 4096u);
  EXPECT_EQ(parse_size("4KiB"), 4096u);
  EXPECT_EQ(parse_size("4KB"), 4000u);
  EXPECT_EQ(parse_size("1.5M"), 3u << 19);
  EXPECT_EQ(parse_size("100MiB"), 104857600u);
  EXPECT_EQ(parse_size("2G"), std::uint64_t(1) << 31);
  for (auto bad : {"", "K", "4Q", "-1", "4 K", "4k", "1e30", "nan", "inf", "0x10", "1KiBs"})
    EXPECT_THROW(parse_size(bad), UsageError) << bad;
}

TEST(Units, Durations) {
  EXPECT_DOUBLE_EQ(parse_duration("100ms"), 0.1);
  EXPECT_DOUBLE_EQ(parse_duration("50us"), 5e-5);
  EXPECT_DOUBLE_EQ(parse_duration("20ns"), 2e-8);
  EXPECT_DOUBLE_EQ(parse_duration("2s"), 2);
  EXPECT_DOUBLE_EQ(parse_duration("0.01"), 0.01);
  EXPECT_DOUBLE_EQ(parse_duration("1.5min"), 90);
  for (auto bad : {"", "ms", "-1s", "1h", "1 s"})
    EXPECT_THROW(parse_duration(bad), UsageError) << bad;
}

TEST(Units, RatesAreBytesASecond) {
  EXPECT_DOUBLE_EQ(parse_rate("10Gbps"), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_rate("100Mbit"), 1.25e7);
  EXPECT_DOUBLE_EQ(parse_rate("8kbps"), 1000);
  EXPECT_DOUBLE_EQ(parse_rate("8bit"), 1);
  for (auto bad : {"", "10", "10G", "10GB", "-1Gbps"})
    EXPECT_THROW(parse_rate(bad), UsageError) << bad;
}

TEST(Units, NumbersAndFlags) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_DOUBLE_EQ(parse_number("1e-3"), 1e-3);
  EXPECT_TRUE(parse_flag("on"));
  EXPECT_FALSE(parse_flag("false"));
  EXPECT_THROW(parse_integer("1.5"), UsageError);
  EXPECT_THROW(parse_integer("99999999999999999999"), UsageError);
  EXPECT_THROW(parse_number("1,5"), UsageError);
  EXPECT_THROW(parse_number("inf"), UsageError);
  EXPECT_THROW(parse_flag("maybe"), UsageError);
}

TEST(Units, TheErrorSaysWhatIsRight) {
  try {
    parse_rate("10");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "'10' is not a rate: write a number with kbps, Mbps or Gbps (or kbit, Mbit, Gbit), "
        "such as 10Gbps");
  }
}

TEST(Units, TimesInWords) {
  EXPECT_EQ(time_in_words(0), "0 s");
  EXPECT_EQ(time_in_words(5.73e-7), "0.573 us");
  EXPECT_EQ(time_in_words(0.00123), "1.23 ms");
  EXPECT_EQ(time_in_words(12.34), "12.3 s");
  EXPECT_EQ(time_in_words(200), "3 min 20 s");
  EXPECT_EQ(time_in_words(7500), "2 h 5 min");
}

TEST(Units, BytesInWords) {
  EXPECT_EQ(bytes_in_words(12), "12 B");
  EXPECT_EQ(bytes_in_words(1234567), "1.2 MB");
}

TEST(Units, IntegersHaveBounds) {
  EXPECT_EQ(parse_integer("-n", "4096", 1, 4096), 4096);
  for (const char* wrong : {"0", "4097", "99999999999", "3x", " 3", ""}) try {
      parse_integer("-n", wrong, 1, 4096);
      FAIL() << wrong;
    } catch (const UsageError& e) {
      EXPECT_EQ(std::string(e.what()),
                "-n must be a whole number from 1 to 4096, not '" + std::string(wrong) + "'");
    }
}

TEST(Units, NumbersAreTakenOffTheFrontOrAreTheWholeText) {
  std::string_view text = "12,5";
  EXPECT_EQ(take_number<std::uint64_t>(text), 12u);
  EXPECT_EQ(text, ",5");
  EXPECT_EQ(take_number<std::uint64_t>(text), std::nullopt);
  EXPECT_EQ(text, ",5");
  EXPECT_EQ(number_in<double>("1e-3"), 1e-3);
  for (const char* none : {"", "inf", "nan", "1 s", "0x10"})
    EXPECT_EQ(number_in<double>(none), std::nullopt) << none;
}

}  // namespace
}  // namespace lockstep
