#include "compression/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view spec) {
  try {
    compression(spec);
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << spec << " is accepted";
  return {};
}

TEST(Compressors, AreFoundByNameAliasAndSpec) {
  EXPECT_EQ(compressor_named("topk:ratio=0.1").name, "topk");
  EXPECT_EQ(compressor_named("top-k").name, "topk");
  EXPECT_EQ(full_compressor_spec("top-k:ratio=0.1"), "topk:ratio=0.1,chunk=0,feedback=on");
  EXPECT_EQ(full_compressor_spec("qsgd"), "qsgd:levels=127,bucket=512");
  for (const CompressorRow& row : compressors()) {
    EXPECT_FALSE(row.description.empty());
    EXPECT_EQ(full_compressor_spec(full_compressor_spec(row.name)), full_compressor_spec(row.name));
    const Compression c = compression(row.name);
    EXPECT_TRUE(c.squared_error) << row.name;
    EXPECT_EQ(!c.make, c.averaging == Averaging::low_rank) << row.name;
    EXPECT_EQ(c.memories > 0 && c.averaging != Averaging::low_rank, bool(c.remember)) << row.name;
  }
}

TEST(Compressors, AnswerWhatIsWrongWithWhatWouldBeRight) {
  EXPECT_THAT(refusal("topkk"), HasSubstr("did you mean 'topk'?"));
  EXPECT_THAT(refusal("zip"), HasSubstr("fp16, half, bf16"));
  EXPECT_THAT(refusal("topk:ration=0.1"), HasSubstr("ratio, chunk, feedback"));
  EXPECT_EQ(refusal("topk:ratio=0"), "ratio of 'topk' is 0: above 0 and at most 1");
  EXPECT_EQ(refusal("randomk:ratio=1.5"), "ratio of 'randomk' is 1.5: above 0 and at most 1");
  EXPECT_EQ(refusal("qsgd:levels=128"), "levels of 'qsgd' is 128: 1 to 127");
  EXPECT_THAT(refusal("int8:bucket=0"), HasSubstr("1 to "));
  EXPECT_THAT(refusal("threshold:tau=-1"), HasSubstr("at least 0"));
  EXPECT_THAT(refusal("terngrad:clip=nan"), HasSubstr("clip of 'terngrad'"));
  EXPECT_THAT(refusal("dgc:warmup=-1"), HasSubstr("at least 0"));
  EXPECT_THAT(refusal("fp16:scale=0"), HasSubstr("above 0"));
  EXPECT_THAT(refusal("powersgd:rank=0"), HasSubstr("1 to "));
  EXPECT_THAT(refusal("onebit:feedback=off"), HasSubstr("bucket")) << "it does not train without";
}

// Biased ones keep what they leave out, but for those whose error is that of rounding.
TEST(Compressors, HaveErrorFeedbackByDefaultWhereTheyAreBiased) {
  for (const std::string_view spec : {"onebit", "sign", "topk", "randomk", "threshold:tau=0.1"}) {
    EXPECT_EQ(compression(spec).memories, 1) << spec;
    EXPECT_TRUE(compression(spec).biased) << spec;
  }
  for (const std::string_view spec : {"fp16", "bf16", "int8", "qsgd", "terngrad", "threshold"})
    EXPECT_EQ(compression(spec).memories, 0) << spec;
  for (const std::string_view spec : {"fp16", "bf16", "int8"})
    EXPECT_EQ(compression(std::string(spec) + ":feedback=on").memories, 1) << spec;
  for (const std::string_view spec : {"qsgd", "randomk:feedback=off", "terngrad:clip=0",
                                      "int8:stochastic=on", "threshold", "topk:ratio=1"})
    EXPECT_FALSE(compression(spec).biased) << spec;
  EXPECT_EQ(compression("dgc").memories, 2);
  EXPECT_TRUE(compression("dgc").needs_sgd);
}

TEST(Compressors, SayHowTheirAverageIsMade) {
  EXPECT_EQ(compression("fp16").averaging, Averaging::additive);
  EXPECT_EQ(compression("bf16").type, Type::bf16);
  EXPECT_EQ(compression("int8").averaging, Averaging::two_shot);
  EXPECT_EQ(compression("topk").averaging, Averaging::gathered);
  EXPECT_EQ(compression("randomk").averaging, Averaging::seeded);
  EXPECT_EQ(compression("sign:feedback=off").averaging, Averaging::voted);
  EXPECT_EQ(compression("powersgd:rank=4,start=7").low_rank.rank, 4);
  EXPECT_EQ(compression("powersgd:rank=4,start=7").low_rank.start, 7u);
}

}  // namespace
}  // namespace lockstep
