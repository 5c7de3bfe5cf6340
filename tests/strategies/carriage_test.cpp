// Which numbers may travel how, and what a run is told where they may not.
#include "strategies/carriage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/registry.h"
#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& strategy, const Carriage& carriage,
                    const RunTerms& run = {}) {
  try {
    check_carriage(carriage, strategy, run);
    return "";
  } catch (const UsageError& e) {
    return e.what();
  }
}

TEST(Carriage, OfMeansIsSoundForAllButWhatIsAboutGradients) {
  for (const CompressorRow& row : compressors()) {
    EXPECT_EQ(refusal("all-reduce", {std::string(row.name)}), "") << row.name;
    for (const std::string strategy :
         {"all-reduce:average=weights", "local-sgd", "slow-mo", "diloco"})
      EXPECT_EQ(refusal(strategy, {std::string(row.name)}).empty(), row.name != "dgc") << row.name;
  }
  EXPECT_THAT(refusal("local-sgd", {"sign:feedback=off"}), HasSubstr("vote"));
  EXPECT_EQ(refusal("all-reduce", {"sign:feedback=off"}), "");
}

TEST(Carriage, OfPushesIsSoundWhereAServerCanDecode) {
  for (const std::string strategy : {"parameter-server", "asp", "ssp", "downpour"}) {
    EXPECT_EQ(refusal(strategy, {"topk"}), "");
    EXPECT_EQ(refusal(strategy, {"randomk"}), "");
    EXPECT_THAT(refusal(strategy, {"powersgd"}), HasSubstr("a server hears one at a time"));
    EXPECT_THAT(refusal(strategy, {"sign:feedback=off"}), HasSubstr("vote"));
  }
  for (const std::string strategy : {"parameter-server", "asp"})
    EXPECT_EQ(refusal(strategy, {"dgc"}), "");
  for (const std::string strategy : {"ssp", "downpour"})
    EXPECT_THAT(refusal(strategy, {"dgc"}), HasSubstr("momentum"));
}

TEST(Carriage, RefusesWhatIsUnsoundAndSaysWhy) {
  EXPECT_THAT(refusal("easgd", {"fp16"}), HasSubstr("centre"));
  EXPECT_EQ(refusal("easgd", {"threshold"}), "");
  for (const std::string strategy :
       {"d-psgd", "ad-psgd", "hogwild", "sma", "step-wise", "epoch-average"})
    EXPECT_THAT(refusal(strategy, {"fp16"}), HasSubstr("messages of its own"));
  RunTerms adam;
  adam.optimizer = "adam:lr=0.1";
  EXPECT_THAT(refusal("all-reduce", {"dgc"}, adam), HasSubstr("adam"));
  Carriage shared{"topk"};
  shared.collective = "shared";
  EXPECT_THAT(refusal("all-reduce", shared), HasSubstr("nothing is sent"));
}

// What is mixed as it comes must be weights, or nearly.
TEST(Carriage, OfWeightsThatPeersMixIsSoundWhereAllOfThemAreInAMessage) {
  for (const std::string code : {"fp16", "bf16", "int8", "int8:stochastic=on", "qsgd", "threshold"})
    EXPECT_EQ(refusal("gossip", {code}), "") << code;
  for (const std::string code : {"topk", "randomk", "sign", "sign:feedback=off", "onebit", "dgc",
                                 "powersgd", "threshold:tau=0.1", "topk:ratio=0.99", "terngrad"})
    EXPECT_THAT(refusal("gossip", {code}), HasSubstr("no point where weights can be")) << code;
  for (const std::string code : {"qsgd:levels=3", "int8:bucket=16777216"})
    EXPECT_THAT(refusal("gossip", {code}), HasSubstr("a quarter of their norm")) << code;
  for (const std::string code : {"fp16:feedback=on", "int8:feedback=on"})
    EXPECT_THAT(refusal("gossip", {code}), HasSubstr("feedback=off")) << code;
}

TEST(Carriage, OverlapsWhatSendsGradients) {
  for (const std::string overlap : {"wfbp", "merged"}) {
    for (const std::string strategy : {"all-reduce", "parameter-server", "asp", "ssp"})
      EXPECT_EQ(refusal(strategy, {"", overlap}), "") << strategy;
    for (const std::string strategy : {"local-sgd", "all-reduce:average=weights", "gossip", "sma"})
      EXPECT_THAT(refusal(strategy, {"", overlap}), HasSubstr("it sends weights"));
    EXPECT_THAT(refusal("easgd", {"", overlap}), HasSubstr("the way to a centre"));
    EXPECT_THAT(refusal("downpour", {"", overlap}), HasSubstr("several steps"));
  }
}

// Which a bucket is not.
TEST(Carriage, OverlapsNoOptimiserThatNeedsAllLayersAtOnce) {
  RunTerms lars;
  lars.optimizer = "lars:lr=1";
  lars.needs_whole_layers = true;
  for (const std::string strategy : {"parameter-server", "ssp"})
    EXPECT_THAT(refusal(strategy, {"", "wfbp"}, lars), HasSubstr("lars"));
  // The mean is whole before it steps, and so is a push of asp.
  for (const std::string strategy : {"all-reduce", "asp"})
    EXPECT_EQ(refusal(strategy, {"", "wfbp"}, lars), "");
}

TEST(Carriage, NamesWhatCanNotBe) {
  EXPECT_THAT(refusal("all-reduce", {"", "wfb"}), HasSubstr("wfbp"));
  EXPECT_THAT(refusal("all-reduce", {"topq"}), HasSubstr("topk"));
  EXPECT_THAT(refusal("all-reduce", {"", "wfbp", -1}), HasSubstr("--bucket-mib"));
  for (const std::string plan : {"5,", "x", "5,0", "5.5"})
    EXPECT_THAT(refusal("all-reduce", {"", "wfbp", 25, 1, plan}), HasSubstr("--buckets"));
  EXPECT_EQ(refusal("asp", {"", "none", 25, 1, "5"}), "");
  EXPECT_THAT(refusal("gossip", {"", "none", 25, 1, "5"}), HasSubstr("--buckets"));
}

TEST(Carriage, SaysWhenMessagesAreLongerThanNumbers) {
  RunTerms run;
  run.workers = 4;
  EXPECT_FALSE(notice_of_carriage({"topk:ratio=0.2"}, "all-reduce", run));
  const auto notice = notice_of_carriage({"topk:ratio=0.5"}, "all-reduce", run);
  ASSERT_TRUE(notice);
  EXPECT_THAT(*notice, HasSubstr("2.0 times as many bytes"));
  EXPECT_FALSE(notice_of_carriage({"topk:ratio=0.5"}, "asp", run));
  EXPECT_FALSE(notice_of_carriage({"dgc"}, "all-reduce", run));
  EXPECT_FALSE(notice_of_carriage({"dgc:ratio=0.2"}, "all-reduce", run)) << "after its warm-up";
  EXPECT_TRUE(notice_of_carriage({"dgc:ratio=0.5"}, "all-reduce", run));
  run.workers = 63;
  EXPECT_FALSE(notice_of_carriage({"sign:feedback=off"}, "all-reduce", run));
  run.workers = 65;
  EXPECT_TRUE(notice_of_carriage({"sign:feedback=off"}, "all-reduce", run));
}

}  // namespace
}  // namespace lockstep
