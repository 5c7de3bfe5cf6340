#include "bench/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Work, SurvivesThePipe) {
  const Work work{Operation::pushpull, "asp", Type::bf16, 1234, 5, 20, 3};
  const Work read = work_from(to_line(work));
  EXPECT_EQ(read.operation, work.operation);
  EXPECT_EQ(read.collective, work.collective);
  EXPECT_EQ(read.type, work.type);
  EXPECT_EQ(read.bytes, work.bytes);
  EXPECT_EQ(read.warmup, work.warmup);
  EXPECT_EQ(read.iterations, work.iterations);
  EXPECT_EQ(read.servers, work.servers);
}

TEST(Result, SurvivesThePipeToTheBit) {
  const Result result{{0.1, 1.0 / 3}, {2.5}, 7, std::nullopt, 42, "shared", {1.0 / 7}};
  const std::string line = to_line(result);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Result read = result_from(line);
  EXPECT_EQ(read.times_us, result.times_us);
  EXPECT_EQ(read.stream_us, result.stream_us);
  EXPECT_EQ(read.wrong, result.wrong);
  EXPECT_EQ(read.bytes_sent_total, std::nullopt);
  EXPECT_EQ(read.bytes_sent_busiest, result.bytes_sent_busiest);
  EXPECT_EQ(read.chosen, result.chosen);
  EXPECT_EQ(read.memcpy_us, result.memcpy_us);
}

TEST(Result, AFailureArrivesAsItsReason) {
  const std::string line = failure_line("rank 1 died: \"signal 9\"\nand so on");
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT([&] { result_from(line); }, ThrowsMessage<InternalError>(HasSubstr("\"signal 9\"")));
}

TEST(Result, GarbageIsAnError) {
  EXPECT_THROW(result_from("mpirun noticed that"), InternalError);
  EXPECT_THROW(result_from("{}"), InternalError);
  EXPECT_THROW(work_from("{\"operation\":1}"), InternalError);
  EXPECT_THROW(work_from("{\"operation\":\"shuffle\"}"), InternalError);
}

TEST(Result, JoinsToTheSlowestRankOfEachIteration) {
  const Result first{{5, 1, 3}, {}, 0, 10, 10, "ring"}, second{{2, 4, 3}, {}, 2, 30, 30, "ring"};
  const Result all = join({first, second});
  EXPECT_THAT(all.times_us, ElementsAre(5, 4, 3));
  EXPECT_EQ(all.wrong, 2u);
  EXPECT_EQ(all.bytes_sent_total, 40u);
  EXPECT_EQ(all.bytes_sent_busiest, 30u);
}

TEST(Result, WhatNoRankKnowsStaysUnknown) {
  const Result all = join({Result{{1}, {}, {}, {}, {}, ""}, Result{{2}, {}, {}, {}, {}, ""}});
  EXPECT_EQ(all.wrong, std::nullopt);
  EXPECT_EQ(all.bytes_sent_total, std::nullopt);
}

TEST(Sizes, MultiplyAndAlwaysEndWithTheLargest) {
  EXPECT_THAT(sizes_between(4096, 104857600, 10, 4),
              ElementsAre(4096, 40960, 409600, 4096000, 40960000, 104857600));
  EXPECT_THAT(sizes_between(8, 64, 2, 4), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_between(64, 64, 2, 4), ElementsAre(64));
}

TEST(Sizes, AreWholeElements) { EXPECT_THAT(sizes_between(10, 103, 10, 8), ElementsAre(8, 96)); }

TEST(Sizes, DoNotOverflow) {
  const std::size_t huge = ~std::size_t{0} - 7;
  EXPECT_THAT(sizes_between(huge / 2, huge, 1000, 1), ElementsAre(huge / 2, huge));
}

TEST(Sizes, RefuseWhatCannotBe) {
  EXPECT_THROW(sizes_between(0, 64, 2, 4), UsageError);
  EXPECT_THROW(sizes_between(3, 64, 2, 4), UsageError);
  EXPECT_THROW(sizes_between(65, 64, 2, 4), UsageError);
}

}  // namespace
}  // namespace lockstep::bench
