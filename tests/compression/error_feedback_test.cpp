#include "compression/error_feedback.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "specs.h"

namespace lockstep {
namespace {

// Encodes so many vectors one after the other; returns the sum of what was decoded, the sum of all
// vectors, and the memory at the end.
struct Sums {
  Numbers decoded, given, memory;
  double largest_memory = 0;
};

Sums after(const std::string& spec, std::size_t count, int steps, bool whole) {
  const Compression c = compression(spec);
  const auto code = c.make();
  Sums sums{Numbers(count), Numbers(count), Numbers(count)};
  const Values memory = values(sums.memory);
  const auto remembering = c.remember(*code, {&memory, 1}, {});
  for (int step = 0; step < steps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const Numbers v = whole ? whole_numbers(count, seed) : normal_numbers(count, seed);
    const Draw draw{1, 0, seed};
    remembering->add(encoded(*remembering, v, draw).bytes(), draw, 1, values(sums.decoded));
    combine(values(sums.given), {v.data(), count * sizeof(float)});
    sums.largest_memory = std::max(sums.largest_memory, std::sqrt(squared_norm(sums.memory)));
  }
  return sums;
}

// Where sums are exact, nothing at all is lost.
class ExactFeedback : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ExactFeedback,
                         ::testing::Values("topk:ratio=0.05", "topk:ratio=0.1,chunk=64",
                                           "randomk:ratio=0.05", "threshold:tau=80",
                                           "bf16:feedback=on", "fp16:feedback=on"));

TEST_P(ExactFeedback, DecodedMessagesAndMemoryAddUpToAllNumbers) {
  for (const std::size_t count : {1u, 7u, 777u}) {
    const Sums sums = after(GetParam(), count, 40, true);
    Numbers both = sums.decoded;
    combine(values(both), {sums.memory.data(), count * sizeof(float)});
    EXPECT_EQ(both, sums.given) << count;
  }
}

class Feedback : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Feedback,
                         ::testing::Values("topk:ratio=0.2", "randomk:ratio=0.2", "sign", "onebit",
                                           "onebit:bucket=10", "threshold:tau=2",
                                           "int8:feedback=on", "fp16:feedback=on",
                                           "bf16:feedback=on"));

TEST_P(Feedback, DecodedMessagesAndMemoryAddUpToRoundingAndMemoryStaysBounded) {
  const std::size_t count = 500;
  const Sums sums = after(GetParam(), count, 200, false);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(static_cast<double>(sums.decoded[i]) + sums.memory[i], sums.given[i], 2e-3) << i;
  // |e| <= sqrt(b) (|e| + |v|) for a bound b: at most |v| sqrt(b) / (1 - sqrt(b)), |v| up to 1.15
  // sqrt(count).
  const double root = std::sqrt(compression(GetParam()).squared_error(count));
  if (root < 1) {
    EXPECT_LE(sums.largest_memory, 1.15 * std::sqrt(count) * root / (1 - root));
  }
  EXPECT_GT(sums.largest_memory, 0);
}

TEST(ErrorFeedback, KeepsItsMemoryInUnitsOfNumbers) {
  const auto code = compression("topk:ratio=0.5").make();
  Numbers memory(4);
  ErrorFeedback feedback(*code, values(memory));
  const Message message = encoded(feedback, {1, -4, 2, 3});
  EXPECT_EQ(decoded(feedback, message, 4), (Numbers{0, -4, 0, 3}));
  EXPECT_EQ(memory, (Numbers{1, 0, 2, 0}));
  EXPECT_EQ(decoded(feedback, encoded(feedback, {1, 1, 2, 1}), 4), (Numbers{2, 0, 4, 0}));
  EXPECT_EQ(memory, (Numbers{0, 1, 0, 1}));
}

TEST(ErrorFeedback, HoldsANanUntilItIsSeen) {
  const auto code = compression("topk:ratio=0.25").make();
  Numbers memory(4);
  ErrorFeedback feedback(*code, values(memory));
  EXPECT_TRUE(std::isnan(decoded(feedback, encoded(feedback, {1, NAN, 2, 3}), 4)[1]));
}

TEST(ErrorFeedback, PassesOverHollowNumbersAndRefusesAMemoryOfAnotherLength) {
  const auto code = compression("topk").make();
  ErrorFeedback hollow(*code, Values::hollow(1000, Type::fp32));
  EXPECT_EQ(hollow.encode(Values::hollow(1000, Type::fp32), {nullptr, 80}, {}), 80u);
  Numbers memory(10);
  ErrorFeedback feedback(*code, values(memory));
  EXPECT_THROW(encoded(feedback, Numbers(11)), InternalError);
}

// Signs and means as 1-bit SGD has them, in words and in the part of a word that is left.
TEST(OneBit, DecodesToTheTwoMeansOfABucket) {
  const auto code = compression("onebit:bucket=4").make();
  const Numbers v = {-1, -3, 4, 0, 5, 7, 6, 6, -2};
  EXPECT_EQ(decoded(*code, encoded(*code, v), 9), (Numbers{-2, -2, 2, 2, 6, 6, 6, 6, -2}));
  Numbers many(1200);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 3 == 0 ? -2.f : 1.f;
  const auto wide = compression("onebit").make();
  EXPECT_EQ(decoded(*wide, encoded(*wide, many), 1200), many);
}

TEST(Sign, OfZeroIsPlusAndTheScaleIsTheMeanMagnitude) {
  const auto code = compression("sign").make();
  EXPECT_EQ(decoded(*code, encoded(*code, {0, -4, 2, -0.f}), 4), (Numbers{1.5, -1.5, 1.5, 1.5}));
}

TEST(Sign, WithoutFeedbackTheMajorityDecides) {
  const Compression c = compression("signsgd:feedback=off");
  EXPECT_EQ(c.averaging, Averaging::voted);
  const auto code = c.make();
  Numbers sum(4);
  for (const Numbers& v :
       {Numbers{1, -1, 5, 0}, Numbers{1, -1, -3, -2}, Numbers{-9, 8, 1, -1}, Numbers{3, -1, -1, 4}})
    code->add(encoded(*code, v).bytes(), {}, 1, values(sum));
  vote(values(sum));
  EXPECT_EQ(sum, (Numbers{1, -1, 1, 1})) << "a tie is +";
  code->add(encoded(*code, {1, NAN, 1, 1}).bytes(), {}, 1, values(sum));
  vote(values(sum));
  for (const float x : sum) EXPECT_TRUE(std::isnan(x)) << "its rank's whole message is";
}

TEST(Int8, IsOffByHalfAUnitAtMost) {
  const auto code = compression("int8:bucket=100").make();
  const Numbers v = normal_numbers(1000, 1);
  const Numbers back = decoded(*code, encoded(*code, v), 1000);
  for (std::size_t b = 0; b < 10; ++b) {
    float largest = 0;
    for (std::size_t i = 100 * b; i < 100 * b + 100; ++i)
      largest = std::max(largest, std::abs(v[i]));
    for (std::size_t i = 100 * b; i < 100 * b + 100; ++i)
      ASSERT_LE(std::abs(v[i] - back[i]), largest / 254 * (1 + 1e-4)) << i;
  }
}

TEST(Fp16, OverflowsToInfinityAndAScaleMakesRoom) {
  const auto code = compression("fp16").make(), scaled = compression("fp16:scale=0.25").make();
  EXPECT_TRUE(std::isinf(decoded(*code, encoded(*code, {1e5}), 1)[0]));
  EXPECT_EQ(decoded(*scaled, encoded(*scaled, {131072}), 1)[0], 131072);
}

TEST(Threshold, DropsWhatIsNotAbove) {
  const auto code = compression("threshold:tau=1").make();
  EXPECT_EQ(decoded(*code, encoded(*code, {1, -1, 1.0001f, -7, 0}), 5),
            (Numbers{0, 0, 1.0001f, -7, 0}));
  const auto lossless = compression("threshold").make();
  EXPECT_EQ(encoded(*lossless, {0, -0.f, 1e-45f, 0}).size, 8u) << "the smallest number there is";
  Numbers none(100);
  EXPECT_EQ(encoded(*lossless, none).size, 0u);
  EXPECT_EQ(decoded(*lossless, {{}, 0}, 100), none) << "an empty message is one";
}

TEST(TopK, InChunksTakesTheLargestOfEach) {
  const auto code = compression("topk:ratio=0.5,chunk=2").make();
  EXPECT_EQ(decoded(*code, encoded(*code, {9, 8, 1, 2, 0.5f}), 5), (Numbers{9, 0, 0, 2, 0.5f}));
  EXPECT_EQ(compression("topk:ratio=0.01").make()->most_bytes(300), 24u) << "0.01 of 300 is 3";
}

TEST(AdditiveMessages, AreValuesThatCanBeAddedUp) {
  for (const char* spec : {"fp16", "bf16", "randomk:ratio=0.5"}) {
    const Compression c = compression(spec);
    const auto code = c.make();
    const Numbers a = whole_numbers(101, 1), b = whole_numbers(101, 2);
    Message sum = encoded(*code, a), other = encoded(*code, b);
    combine(values_in(c, {sum.room().data, sum.size}, Op::sum), other.bytes());
    Numbers expected = decoded(*code, encoded(*code, a), 101);
    code->add(other.bytes(), {}, 1, values(expected));
    EXPECT_EQ(decoded(*code, sum, 101), expected) << spec;
  }
  EXPECT_THROW(values_in(compression("int8"), {nullptr, 0}, Op::sum), InternalError);
}

}  // namespace
}  // namespace lockstep
