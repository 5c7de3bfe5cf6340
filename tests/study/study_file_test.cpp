// A study's file: what it can say, and how a mistake in it is told.
#include "study/study_file.h"

#include <gmock/gmock.h>

#include "study/pretended.h"

namespace lockstep::study {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(StudyFile, ReadsValuesAsTheCommandLineHasThem) {
  const StudyFile file = file_from(R"(
[base]
workers = 3
rate = 0.01
audit = true
fault = ["kill:rank=1,after=3", "delay:rank=0"]
)");
  EXPECT_EQ(file.base.at("workers").values, std::vector<std::string>{"3"});
  EXPECT_EQ(file.base.at("rate").values, std::vector<std::string>{"0.01"});
  EXPECT_TRUE(file.base.at("audit").values.empty());
  EXPECT_EQ(file.base.at("fault").values.size(), 2u);
}

TEST(StudyFile, KeepsTheOrderOfAxes) {
  const StudyFile file = file_from("[grid]\nzeta = [1, 2]\nalpha = [\"a\"]\n");
  ASSERT_EQ(file.grid.size(), 2u);
  EXPECT_EQ(file.grid[0].name, "zeta");
  EXPECT_EQ(file.grid[0].values[1].text(), "2");
}

constexpr const char* kSized = R"(
minutes = 60
[base]
epochs = 10
limit = 0
[grid]
workers = [1, 2, 3]
[repeat]
seeds = [1, 2, 3]
[tune]
optimizer = ["a", "b"]
[quick]
minutes = 5
[quick.base]
epochs = 1
[quick.grid]
workers = [2]
[quick.repeat]
times = 2
[quick.tune]
optimizer = []
)";

TEST(StudyFile, QuickStandsInPlaceOfTheRest) {
  const StudyFile full = file_from(kSized), quick = file_from(kSized, true);
  EXPECT_EQ(full.minutes, 60);
  EXPECT_EQ(full.grid[0].values.size(), 3u);
  EXPECT_EQ(full.tune.size(), 1u);
  EXPECT_EQ(quick.minutes, 5);
  EXPECT_EQ(quick.base.at("epochs").text(), "1");
  EXPECT_EQ(quick.base.at("limit").text(), "0");
  EXPECT_EQ(quick.grid[0].values.size(), 1u);
  EXPECT_THAT(quick.seeds, ElementsAre(1, 2));
  EXPECT_TRUE(quick.tune.empty());
}

struct Wrong {
  std::string text;  // after a first line with the title
  std::string said;
  friend void PrintTo(const Wrong& w, std::ostream* out) { *out << w.text; }
};
class WrongFile : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongFile, IsToldWithFileAndLine) {
  EXPECT_THAT([&] { file_from(GetParam().text); },
              ThrowsMessage<UsageError>(AllOf(StartsWith("a.toml"), HasSubstr(GetParam().said))));
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongFile,
    ::testing::Values(
        Wrong{"[base\nworkers = 3", "a.toml:2: "}, Wrong{"x y = 3", "a.toml:2: "},
        Wrong{"[bass]\nworkers = 3",
              "a.toml:2: unknown key in the file 'bass': did you mean 'base'"},
        Wrong{"\n\nminutes = \"x\"", "a.toml:4: minutes must be a number"},
        Wrong{"base = 3", "a.toml:2: base must be a table"},
        Wrong{"[base]\nworkers = {a = 1}", "a.toml:3: workers must be text, a number"},
        Wrong{"[[variant]]\nstrategy = \"x\"", "a variant needs a name"},
        Wrong{"[[variant]]\nname = \"x\"\n[[variant]]\nname = \"x\"",
              "a.toml:4: there are two variants called 'x'"},
        Wrong{"[variant]\nname = \"x\"", "[[variant]]"},
        Wrong{"baseline = \"y\"\n[[variant]]\nname = \"x\"", "the baseline 'y' is no variant's"},
        Wrong{"[repeat]\nseeds = 3", "a.toml:3: seeds is a list"},
        Wrong{"[repeat]\nseeds = [1, 1]", "seed 1 is there twice"},
        Wrong{"[repeat]\nseed = [1]", "did you mean 'seeds'"},
        Wrong{"[repeat]\ntimes = 0", "from 1 to"},
        Wrong{"[grid]\nworkers = [1, 2, 1]", "a.toml:3: workers has 1 twice"},
        Wrong{"[tune]\noptimizer = [\"a\"]\nseed = 1", "a.toml:4: [tune] needs a seed"},
        Wrong{"[quick.bsae]\nworkers = 1", "did you mean 'base'"},
        Wrong{"title = 3", "a.toml:2: "}));

TEST(StudyFile, WithoutQuickCantBeQuick) {
  EXPECT_THAT([] { file_from("minutes = 3", true); },
              ThrowsMessage<UsageError>(HasSubstr("has no [quick]")));
}

TEST(StudyFile, NeedsATitle) {
  EXPECT_THAT([] { parse_study("minutes = 3", "a.toml", false); },
              ThrowsMessage<UsageError>(HasSubstr("needs a title")));
}

}  // namespace
}  // namespace lockstep::study
