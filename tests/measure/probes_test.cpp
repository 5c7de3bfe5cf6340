#include "measure/probes.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ProcFile, NumbersAreFoundByName) {
  const std::string_view text = "read_bytes: 7\nRssAnon:\t   120 kB\nname: x\n";
  EXPECT_EQ(number_after(text, "RssAnon:"), 120u);
  EXPECT_EQ(number_after(text, "read_bytes:"), 7u);
  EXPECT_EQ(number_after(text, "name:"), std::nullopt);
  EXPECT_EQ(number_after(text, "other:"), std::nullopt);
}

TEST(ProcFile, ReadsWhatIsThereNowAndNothingWhereNoFileIs) {
  ProcFile status("/proc/self/status");
  EXPECT_TRUE(status.there());
  EXPECT_GT(number_after(status.read(), "VmRSS:").value_or(0), 0u);
  EXPECT_GT(number_after(status.read(), "VmRSS:").value_or(0), 0u);
  ProcFile none("/proc/self/none");
  EXPECT_FALSE(none.there());
  EXPECT_TRUE(none.read().empty());
}

TEST(InterfaceProbe, LoopbackSendsWhatItReceives) {
  const auto figures = InterfaceProbe("lo").read();
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->sent_bytes, figures->received_bytes);
  EXPECT_FALSE(InterfaceProbe("none7").read());
}

}  // namespace
}  // namespace lockstep
