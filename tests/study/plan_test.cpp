// From a file to runs: the grid written out, checked, and named by content.
#include "study/plan.h"

#include <gmock/gmock.h>

#include "study/pretended.h"

namespace lockstep::study {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* kTwoByTwo = R"(
[base]
epochs = 1
[[variant]]
name = "a"
strategy = "A"
[[variant]]
name = "b"
strategy = "B"
[grid]
workers = [2, 3]
[repeat]
seeds = [7, 8]
)";

std::set<std::string> ids(const Study& study) {
  std::set<std::string> all;
  for (const Run& run : study.runs) all.insert(run.id);
  return all;
}

TEST(Plan, WritesTheGridOutAndTakesSeedsInTurn) {
  const Study study = plan_from_text(kTwoByTwo);
  ASSERT_EQ(study.variants.size(), 4u);
  EXPECT_EQ(study.variants[1].label, "a, workers 3");
  EXPECT_EQ(study.variants[1].group.at("workers"), "3");
  ASSERT_EQ(study.runs.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(study.runs[i].seed, i < 4 ? 7u : 8u);
  EXPECT_EQ(command_line(study, study.runs[1]),
            "lockstep train --epochs 1 --seed 7 --strategy A --workers 3");
}

TEST(Plan, RunsAreNamedByWhatTheyDo) {
  const std::string other = R"(
about = "other words"
[repeat]
seeds = [8, 7]
[grid]
workers = [3, 2]
[[variant]]
strategy = "B"
name = "renamed"
[[variant]]
strategy = "A"
name = "also renamed"
[base]
epochs = 1
)";
  EXPECT_EQ(ids(plan_from_text(kTwoByTwo)), ids(plan_from_text(other)));
  EXPECT_EQ(plan_from_text(kTwoByTwo).runs[0].id, plan_from_text(kTwoByTwo).runs[0].id);
  EXPECT_EQ(plan_from_text(kTwoByTwo).runs[0].id.size(), 12u);
}

TEST(Plan, ALongerAxisKeepsTheRunsThereAre) {
  std::string longer = kTwoByTwo;
  longer.replace(longer.find("[2, 3]"), 6, "[2, 3, 4]");
  const auto before = ids(plan_from_text(kTwoByTwo)), after = ids(plan_from_text(longer));
  EXPECT_EQ(after.size(), 12u);
  EXPECT_TRUE(std::ranges::includes(after, before));
}

TEST(Plan, WordsInBracesStandForAnAxis) {
  const Study study = plan_from_text(
      "[base]\ncluster = \"sim:rate={rate},hosts={n}\"\n[grid]\nrate = [\"1G\", \"2G\"]\nn = 3\n");
  ASSERT_EQ(study.runs.size(), 2u);
  EXPECT_EQ(study.runs[1].flags.at("cluster").text(), "sim:rate=2G,hosts=3");
  ASSERT_EQ(study.axes.size(), 1u) << "an axis with one value does not vary";
  EXPECT_EQ(study.axes[0].name, "rate");
}

TEST(Plan, WordsAreShownWithoutTheirComma) {
  const Study study = plan_from_text(
      "[base]\ncluster = \"sim:step=1ms{slow}\"\n[grid]\nslow = [\"\", \",slow=rank1:3\"]\n");
  ASSERT_EQ(study.runs.size(), 2u);
  EXPECT_EQ(study.runs[1].flags.at("cluster").text(), "sim:step=1ms,slow=rank1:3");
  EXPECT_THAT(study.axes[0].values, ::testing::ElementsAre("none", "slow=rank1:3"));
  EXPECT_THAT(study.variants[0].label, HasSubstr("slow none"));
}

TEST(Plan, EveryRunHasATwin) {
  const Study study = plan_from_text(R"(
[base]
workers = 3
[repeat]
seeds = [1, 2]
[twin]
cluster = "sim:step=measured"
[twin.grid]
workers = [3, 6]
)");
  ASSERT_EQ(study.variants.size(), 3u);
  const Variant &measured = study.variants[0], &twin = study.variants[1];
  EXPECT_EQ(measured.twin, twin.label);
  EXPECT_TRUE(twin.simulated);
  EXPECT_EQ(twin.group.at("workers"), "3");
  EXPECT_EQ(study.variants[2].group.at("workers"), "6");
  for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(study.run(twin.runs[s]).timed_by, measured.runs[s]);
  EXPECT_LT(study.run(measured.runs[1]).turn, study.run(twin.runs[1]).turn);
  EXPECT_LT(study.run(twin.runs[0]).turn, study.run(measured.runs[1]).turn);
}

TEST(Plan, AStepAloneIsShownByARunThatComesFirst) {
  const Study study = plan_from_text("[base]\nworkers = 3\n[twin]\ncluster = \"sim:step=alone\"\n");
  ASSERT_EQ(study.runs.size(), 3u);
  EXPECT_EQ(study.runs[0].flags.at("workers").text(), "1");
  EXPECT_EQ(study.runs[2].timed_by, study.runs[0].id);
}

constexpr const char* kTuned = R"(
[base]
optimizer = "slow"
[[variant]]
name = "a"
strategy = "A"
[[variant]]
name = "b"
strategy = "B"
[tune]
optimizer = ["slow", "fast"]
seed = 100
)";

TEST(Plan, TrialsComeFirstAndTheBestIsAdded) {
  Study study = plan_from_text(kTuned);
  ASSERT_EQ(study.trials.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(study.runs[i].seed, 100u);
  // For a the fast rate is better, for b the slow one that it has anyway.
  const std::map<std::string, double> scores = {{study.trials[0].run, 0.1},
                                                {study.trials[1].run, 0.2},
                                                {study.trials[2].run, 0.4},
                                                {study.trials[3].run, 0.3}};
  add_tuned(study, file_from(kTuned), PretendedSubject(),
            [&](const std::string& run) -> std::optional<double> { return scores.at(run); });
  ASSERT_EQ(study.variants.size(), 4u);
  EXPECT_EQ(study.variants[2].label, "a, tuned");
  EXPECT_EQ(study.variants[2].tuned.at("optimizer").text(), "fast");
  EXPECT_EQ(study.variants[3].runs, study.variants[1].runs) << "the same flags are the same run";
  EXPECT_TRUE(study.trials[1].chosen);
  EXPECT_FALSE(study.trials[0].chosen);
  EXPECT_EQ(study.runs.size(), 4u + 2 + 1);
}

TEST(Plan, WithoutAnyTrialThatScoredNothingIsTuned) {
  Study study = plan_from_text(kTuned);
  add_tuned(study, file_from(kTuned), PretendedSubject(),
            [](const std::string&) { return std::optional<double>(); });
  EXPECT_EQ(study.variants.size(), 2u);
}

void expect_refused(const std::string& text, const std::string& said) {
  EXPECT_THAT([&] { plan_from_text(text); },
              ThrowsMessage<UsageError>(AllOf(StartsWith("a.toml"), HasSubstr(said))))
      << text;
}

TEST(Plan, RefusesNamesThatAreNobodys) {
  expect_refused("[base]\nworker = 3",
                 "a.toml:3: unknown flag of train 'worker': did you mean "
                 "'workers'");
  expect_refused("[grid]\nwokers = [1]", "a.toml:3: unknown flag of train 'wokers'");
  expect_refused("[[variant]]\nname = \"x\"\nstrateg = \"a\"", "a.toml:4: unknown flag");
  expect_refused("[tune]\nlr = [1]", "a.toml:3: unknown flag");
  expect_refused("[twin]\nclutser = \"sim\"", "a.toml:3: unknown flag");
  expect_refused("[base]\ncluster = \"sim:rate={rate}\"", "a.toml:3: {rate} stands for an axis");
  expect_refused("[grid]\nworkers = [1]\n[[variant]]\nname = \"x\"\nworkers = 2",
                 "a.toml:3: workers is an axis, and the variant 'x' sets it as well");
}

TEST(Plan, RefusesWhatTheCommandRefuses) {
  expect_refused("[[variant]]\nname = \"x\"\n[grid]\nworkers = [1, 0]",
                 "a.toml:2: x, workers 0: --workers must be at least 1");
}

TEST(Plan, ShowsWhatTheCommandRefusesWhereTheFileSaysSo) {
  const Study study = plan_from_text(
      "refused = \"shown\"\n[base]\nstrategy = \"A\"\n[grid]\nworkers = [0, 2]\n"
      "[repeat]\nseeds = [7, 8]\n");
  ASSERT_EQ(study.runs.size(), 4u);
  EXPECT_EQ(study.count("refused"), 2u);
  EXPECT_EQ(study.count("waiting"), 2u);
  const auto& refused = study.run(study.variants[0].runs[0]);
  EXPECT_EQ(refused.status, "refused");
  EXPECT_EQ(refused.reason, "--workers must be at least 1");
  EXPECT_NE(study.variants[0].runs[0], study.variants[0].runs[1]);
}

TEST(Plan, RefusedIsShownOrNotSaid) {
  expect_refused("refused = \"hidden\"\n", "a.toml:2: refused must be \"shown\"");
}

TEST(Study, SurvivesJson) {
  Study study = plan_from_text(kTwoByTwo);
  study.runs[2].status = "failed";
  study.runs[2].reason = "why";
  const Study again = study_from(nlohmann::json::parse(to_json(study).dump()), "study.json");
  EXPECT_EQ(to_json(again), to_json(study));
}

TEST(Study, AnotherFileIsRefusedByName) {
  EXPECT_THAT([] { study_from(nlohmann::json::parse(R"({"kind":"x"})"), "d/study.json"); },
              ThrowsMessage<UsageError>(HasSubstr("d/study.json")));
}

TEST(Flags, ALineForTheShellIsQuotedWhereItMustBe) {
  EXPECT_EQ(shell_line({"--a", "x=1,y", "it's", "a b", ""}), R"(--a x=1,y 'it'\''s' 'a b' '')");
}

}  // namespace
}  // namespace lockstep::study
