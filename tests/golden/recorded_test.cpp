// That the comparison sees what it is for.
#include "recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::golden {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> sentences(const std::vector<Line>& recorded, const std::vector<Line>& seen,
                                   const Except& except = {}) {
  std::vector<std::string> all;
  for (const Difference& difference : differences(recorded, seen, except))
    all.push_back(difference.sentence);
  return all;
}

const Line kLine{"ring 3 ranks", {{"sum", "ab"}, {"sent", "8,8,8"}}};

TEST(Recorded, ALineIsReadAsItWasWritten) {
  EXPECT_EQ(to_text(kLine), "ring 3 ranks | sum ab | sent 8,8,8");
  const Line read = line_from(to_text(kLine));
  EXPECT_EQ(read.name, kLine.name);
  EXPECT_EQ(read.fields, kLine.fields);
  EXPECT_THROW(line_from("ring 3 ranks | sum"), UsageError);
}

TEST(Recorded, SaysWhichFieldOfWhichCaseDiffers) {
  EXPECT_THAT(sentences({kLine}, {kLine}), ElementsAre());
  const Line other{kLine.name, {{"sum", "ab"}, {"sent", "8,8,9"}}};
  EXPECT_THAT(sentences({kLine}, {other}),
              ElementsAre("ring 3 ranks: sent was `8,8,8`, is `8,8,9`"));
  EXPECT_THAT(sentences({kLine}, {other}, {{"sent"}, {}}), ElementsAre());
}

TEST(Recorded, SaysWhatOneSideLacks) {
  const Line less{kLine.name, {{"sum", "ab"}}};
  EXPECT_THAT(sentences({kLine}, {less}),
              ElementsAre("ring 3 ranks: sent was `8,8,8`, is nothing"));
  EXPECT_THAT(sentences({less}, {kLine}),
              ElementsAre("ring 3 ranks: sent was nothing, is `8,8,8`"));
  EXPECT_THAT(sentences({}, {kLine}),
              ElementsAre("ring 3 ranks: no line is recorded for this case"));
  EXPECT_THAT(sentences({kLine}, {}),
              ElementsAre("ring 3 ranks: a line is recorded, and there is no such case"));
  EXPECT_THAT(sentences({kLine}, {}, {{}, {kLine.name}}), ElementsAre());
}

TEST(Recorded, SaysHowToRecordACaseThatIsNew) {
  EXPECT_THAT(compare_with("no-such-file.txt", {kLine}).message(), HasSubstr("`make golden`"));
}

}  // namespace
}  // namespace lockstep::golden
