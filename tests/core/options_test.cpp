#include "core/options.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string_view> kKeys{"bandwidth", "latency", "hosts",   "topology",
                                          "slow",      "jitter",  "numerics"};

std::string error_of(std::string_view text) {
  try {
    Options(text, kKeys);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, TypedValuesAndDefaults) {
  const Options o("sim:bandwidth=10Gbps,latency=50us,hosts=4,jitter=0.5,numerics=off", kKeys);
  EXPECT_EQ(o.name(), "sim");
  EXPECT_DOUBLE_EQ(o.bytes_per_second("bandwidth"), 1.25e9);
  EXPECT_DOUBLE_EQ(o.seconds("latency"), 5e-5);
  EXPECT_EQ(o.integer("hosts"), 4);
  EXPECT_EQ(o.size("hosts"), 4u);
  EXPECT_DOUBLE_EQ(o.number("jitter"), 0.5);
  EXPECT_FALSE(o.flag("numerics"));
  EXPECT_FALSE(o.has("slow"));
  EXPECT_EQ(o.text("topology", "star"), "star");
  EXPECT_TRUE(o.list("slow").empty());
}

TEST(Options, DefaultsInTheSameSyntaxAreTheKeys) {
  const auto o = Options::with_defaults("step:factor=0.5", "every=30,factor=0.1,at=,by=a:b=1,2");
  EXPECT_EQ(o.number("factor"), 0.5);
  EXPECT_EQ(o.integer("every"), 30);
  EXPECT_EQ(o.text("at"), "");
  EXPECT_EQ(o.text("by"), "a:b=1,2");
  EXPECT_TRUE(o.takes("every"));
  EXPECT_FALSE(o.takes("b"));
  EXPECT_THROW(Options::with_defaults("step:b=1", "every=30"), UsageError);
  EXPECT_THROW(Options::with_defaults("constant:b=1", ""), UsageError);
}

TEST(Options, AChoiceIsOneOfItsNames) {
  const std::string_view names[] = {"star", "tree"};
  EXPECT_EQ(Options("sim:topology=tree", kKeys).choice("topology", names), 1u);
  try {
    Options("sim:topology=tre", kKeys).choice("topology", names);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown topology of 'sim' 'tre': did you mean 'tree'?"));
  }
}

TEST(Options, ANameAlone) {
  EXPECT_EQ(Options("ring", {}).name(), "ring");
  EXPECT_EQ(Options::name_in("sim:hosts=4"), "sim");
}

TEST(Options, ValuesHoldColonsNestedKeysAndLists) {
  const Options o("sim:slow=rank3:2.0,rank5:3.0,topology=tree:oversubscription=4,hosts=2", kKeys);
  EXPECT_THAT(o.list("slow"), ElementsAre("rank3:2.0", "rank5:3.0"));
  EXPECT_EQ(o.text("topology"), "tree:oversubscription=4");
  EXPECT_EQ(o.integer("hosts"), 2);
}

TEST(Options, UnknownKeyListsTheKeysAndTheNearest) {
  EXPECT_EQ(error_of("sim:bandwith=1Gbps"),
            "unknown key of 'sim' 'bandwith': did you mean 'bandwidth'? valid: bandwidth, latency, "
            "hosts, topology, slow, jitter, numerics");
}

TEST(Options, WrongSyntaxIsToldApart) {
  EXPECT_THAT(error_of(":hosts=2"), HasSubstr("has no name"));
  EXPECT_THAT(error_of("sim:"), HasSubstr("write key=value"));
  EXPECT_THAT(error_of("sim:4"), HasSubstr("write key=value"));
  EXPECT_THAT(error_of("sim:=4"), HasSubstr("write key=value"));
  EXPECT_THAT(error_of("sim:hosts=4,hosts=5"), HasSubstr("twice"));
}

TEST(Options, BadAndMissingValuesNameTheKey) {
  const Options o("sim:latency=fast,hosts=", kKeys);
  const auto said = [](auto ask) -> std::string {
    try {
      ask();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      said([&] { o.seconds("latency"); }),
      "latency of 'sim': 'fast' is not a duration: write a number with ns, us, ms, s or min, such "
      "as 50us or 1.5s");
  EXPECT_THAT(said([&] { o.integer("hosts", 1); }), HasSubstr("hosts of 'sim'"));
  EXPECT_EQ(said([&] { o.text("topology"); }), "'sim' needs topology: write sim:topology=…");
  EXPECT_THROW(o.text("workers"), InternalError) << "a key that was never declared";
}

}  // namespace
}  // namespace lockstep
