#include "cluster/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

TEST(Iface, IsFoundByNameAndByNetwork) {
  EXPECT_EQ(find_interface("lo").address, "127.0.0.1");
  EXPECT_EQ(find_interface("127.0.0.0/8").name, "lo");
  EXPECT_EQ(find_interface("127.0.0.1").name, "lo");
}

TEST(Iface, UnknownOnesListThosePresent) {
  for (const char* wanted : {"nosuch0", "203.0.113.0/24", "2001:db8::/32"})
    EXPECT_THAT([&] { find_interface(wanted); },
                testing::ThrowsMessage<UsageError>(testing::AllOf(
                    testing::HasSubstr(wanted), testing::HasSubstr("lo (127.0.0.1)"))));
  for (const char* wanted : {"10.0.0.0/33", "10.0.0.0/x", "10.0.0.0/"})
    EXPECT_THAT([&] { find_interface(wanted); },
                testing::ThrowsMessage<UsageError>(testing::HasSubstr("prefix length")));
}

}  // namespace
}  // namespace lockstep
