// From the folders of runs to the report's document, statistics and sentences included.
#include "study/report_data.h"

#include <gmock/gmock.h>

#include "data/files.h"
#include "study/pretended.h"

namespace lockstep::study {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

constexpr const char* kText = R"(
question = "Which?"
baseline = "ring"
[base]
workers = 2
[[variant]]
name = "ring"
strategy = "A"
[[variant]]
name = "half"
strategy = "B"
[repeat]
seeds = [1, 2, 3]
)";

class Report : public ::testing::Test {
 protected:
  // Scores by seed; `bytes` of each rank.
  void runs(Study& study, const std::string& name, const std::vector<double>& scores, int bytes) {
    for (Variant& v : study.variants)
      for (std::size_t s = 0; v.name == name && s < scores.size(); ++s) {
        Json result = result_json(scores[s]);
        for (Json& rank : result["workers_detail"]) rank["bytes_sent"] = bytes;
        study::Run& run = study.run(v.runs[s]);
        write_done(folder_of(folder_.text(), run), result);
        run.status = "done";
      }
  }
  Json report(const Study& study) const {
    return study_report(study, folder_.text(), {"2026-01-01T00:00:00Z", "1.2"});
  }
  static std::string all(const Json& sentences) {
    std::string text;
    for (const Json& s : sentences) text += s.get<std::string>() + "\n";
    return text;
  }
  const ::lockstep::testing::Folder folder_;
};

TEST_F(Report, HasFiguresWithIntervalsAndPairedDifferences) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.90, 0.80, 0.70}, 1000);
  runs(study, "half", {0.89, 0.79, 0.69}, 500);
  const Json data = report(study);
  EXPECT_EQ(data["kind"], "study");
  EXPECT_EQ(data["baseline"], "ring");
  EXPECT_EQ(data["machine"]["cores"], 2);
  EXPECT_EQ(data["columns"][0]["key"], "score");
  const Json& half = data["variants"][1];
  EXPECT_NEAR(half["figures"]["score"]["mean"].get<double>(), 0.79, 1e-9);
  EXPECT_EQ(half["figures"]["score"]["values"].size(), 3u);
  EXPECT_NEAR(half["against_baseline"]["score"]["difference"].get<double>(), -0.01, 1e-9);
  EXPECT_NEAR(half["against_baseline"]["score"]["high"].get<double>(), -0.01, 1e-6);
  EXPECT_NEAR(half["against_baseline"]["bytes_per_step"]["ratio"].get<double>(), 0.5, 1e-9);
  EXPECT_TRUE(data["variants"][0]["against_baseline"].empty());
  EXPECT_THAT(data["findings"][0].get<std::string>(), HasSubstr("pays with accuracy: half (-1.00"));
}

TEST_F(Report, HasWhatCompressionCostAndSaved) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.9}, 1000);
  Json result = result_json(0.9);
  const double steps = result["steps"];
  result["compression"] = {{"compressor", "fp16"},        {"encode_seconds", 2 * steps},
                           {"decode_seconds", 3 * steps}, {"bytes_before", 1000 * steps},
                           {"bytes_after", 500 * steps},  {"break_even_bits_per_second", 800}};
  study::Run& run = study.run(study.variants[1].runs[0]);
  write_done(folder_of(folder_.text(), run), result);
  run.status = "done";
  const Json data = report(study);
  const auto mean = [&](int variant, const char* key) -> Json {
    const Json& figures = data["variants"][variant]["figures"];
    return figures.contains(key) ? figures[key]["mean"] : Json();
  };
  EXPECT_EQ(mean(1, "encode_seconds_per_step"), 2);
  EXPECT_EQ(mean(1, "decode_seconds_per_step"), 3);
  EXPECT_EQ(mean(1, "bytes_before_per_step"), 1000);
  EXPECT_EQ(mean(1, "bytes_after_per_step"), 500);
  EXPECT_EQ(mean(1, "break_even_bits_per_second"), 800);
  EXPECT_TRUE(mean(0, "encode_seconds_per_step").is_null()) << "it does not compress";
}

TEST_F(Report, SaysNoDifferenceWhereNoneIsShown) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.90, 0.80, 0.70}, 1000);
  runs(study, "half", {0.88, 0.83, 0.70}, 500);
  const Json data = report(study);
  EXPECT_THAT(data["findings"][0].get<std::string>(),
              HasSubstr("Half sends half the bytes of ring, and no loss of accuracy is shown ("));
  EXPECT_THAT(
      all(data["findings"]),
      HasSubstr("No difference to ring is shown for any variant in accuracy (a loss of up to "));
  EXPECT_THAT(data["findings"][0].get<std::string>(), HasSubstr("points is not excluded"));
}

TEST_F(Report, TwoSeedsClaimNeitherADifferenceNorNone) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.90, 0.90}, 1000);
  runs(study, "half", {0.10, 0.10}, 500);
  const Json data = report(study);
  EXPECT_TRUE(data["variants"][0]["figures"]["score"]["low"].is_null());
  const std::string findings = all(data["findings"]);
  EXPECT_THAT(findings, HasSubstr("2 seeds can't tell"));
  for (const char* claim : {"pays with accuracy", "against ring:", "no loss", "No difference",
                            "no difference", "it differs"})
    EXPECT_THAT(findings, Not(HasSubstr(claim)));
}

TEST_F(Report, WhatIsLeftOfAFailedComparisonIsTold) {
  Study study = plan_from_text(kText);
  runs(study, "half", {0.89}, 500);
  EXPECT_THAT(report(study)["findings"][0].get<std::string>(), HasSubstr("Half: accuracy 89.00 %"));
}

TEST_F(Report, OneRunClaimsNothing) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.90}, 1000);
  runs(study, "half", {0.10}, 500);
  const Json data = report(study);
  EXPECT_TRUE(data["variants"][0]["figures"]["score"]["low"].is_null());
  EXPECT_THAT(all(data["findings"]), HasSubstr("one run"));
  EXPECT_THAT(all(data["findings"]), Not(HasSubstr("pays with accuracy")));
  EXPECT_THAT(all(data["findings"]), Not(HasSubstr("against ring:")));
}

TEST_F(Report, TellsOfFailedAndMissingRunsAndOfContention) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.90, 0.80}, 1000);
  study.run(study.variants[1].runs[0]).status = "failed";
  study.run(study.variants[1].runs[0]).reason = "rank 1 died";
  const std::string notes = all(report(study)["notes"]);
  EXPECT_THAT(notes, HasSubstr("(half, seed 1) failed: rank 1 died"));
  EXPECT_THAT(notes, HasSubstr("3 of 6 runs are missing"));
  EXPECT_THAT(notes, HasSubstr("More workers than the 2 cores"));
}

TEST_F(Report, OfNothingSaysSo) {
  const Json data = report(plan_from_text(kText));
  EXPECT_THAT(data["findings"][0].get<std::string>(), HasSubstr("No run is done yet"));
  EXPECT_EQ(data["variants"].size(), 2u);
}

TEST_F(Report, CurvesAreMeansOverSeeds) {
  Study study = plan_from_text(kText);
  runs(study, "ring", {0.9, 0.8}, 1000);
  for (std::size_t s = 0; s < 2; ++s)
    testing::write_file(
        folder_of(folder_.text(), study.run(study.variants[0].runs[s])) + "/metrics.jsonl",
        R"({"steps":5,"ends_epoch":false,"accuracy":0.)" + std::to_string(4 + s) +
            "}\n"
            R"({"steps":10,"ends_epoch":true,"accuracy":0.8})"
            "\n"
            R"({"st)");
  const Json curve = report(study)["variants"][0]["curve"];
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0]["epoch"], 0.5);
  EXPECT_NEAR(curve[0]["score"].get<double>(), 0.45, 1e-9);
  EXPECT_EQ(curve[0]["n"], 2);
  EXPECT_TRUE(curve[0]["loss"].is_null());
}

TEST_F(Report, HoldsPredictionsAgainstMeasurements) {
  const std::string text = std::string(kText) + "[twin]\ncluster = \"sim:step=measured\"\n";
  Study study = plan_from_text(text);
  for (study::Run& run : study.runs) {
    write_done(folder_of(folder_.text(), run), result_json(0.9, run.timed_by.empty() ? 0.1 : 0.11));
    run.status = "done";
  }
  const Json data = report(study);
  EXPECT_EQ(data["variants"][0]["twin"], data["variants"][2]["label"]);
  EXPECT_TRUE(data["variants"][0]["predicted"]);
  EXPECT_THAT(all(data["findings"]), HasSubstr("within 5.7 % of the measured time a step"));
}

TEST_F(Report, GrowthAlongAnAxisIsToldInNumbers) {
  Study study = plan_from_text("[grid]\nworkers = [2, 8]\n");
  for (std::size_t v = 0; v < 2; ++v) {
    Json result = result_json(0.9);
    for (Json& rank : result["workers_detail"]) rank["communicate_seconds"] = v == 0 ? 0.75 : 2.75;
    study::Run& run = study.run(study.variants[v].runs[0]);
    write_done(folder_of(folder_.text(), run), result);
    run.status = "done";
  }
  EXPECT_THAT(all(report(study)["findings"]),
              HasSubstr("From workers 2 to 8, time a step spent in exchange and waiting becomes: "
                        "train 3.0 times, 0.1 s to 0.3 s, one run"));
}

TEST_F(Report, BenchmarksStandBesideTheirFormulas) {
  Study study = plan_from_text("[repeat]\nseeds = [1, 2]\n");
  study.command = "bench allreduce";
  double time = 10;
  for (study::Run& run : study.runs) {
    const Json row = {{"op", "allreduce"},
                      {"engine", "lockstep"},
                      {"collective", "ring"},
                      {"chosen", "ring"},
                      {"transport", "shm"},
                      {"ranks", 4},
                      {"type", "fp32"},
                      {"bytes", 4096},
                      {"time_us", time += 2},
                      {"busbw_GBps", 1.0},
                      {"bytes_sent_total", 24576},
                      {"bytes_sent_busiest", 6144},
                      {"wrong", 0}};
    std::filesystem::create_directories(folder_of(folder_.text(), run));
    write_run(folder_of(folder_.text(), run), "done", "", Json::object(), Json::array({row}),
              "0123456789ab");
    run.status = "done";
  }
  const Json data = report(study);
  ASSERT_EQ(data["bench"].size(), 1u);
  EXPECT_EQ(data["bench"][0]["time_us"]["mean"], 13);
  EXPECT_EQ(data["bench"][0]["time_us"]["n"], 2);
  EXPECT_EQ(data["bench"][0]["formula_total"], 24576);
  EXPECT_EQ(data["bench"][0]["formula_busiest"], 6144);
  EXPECT_THAT(data["findings"][0].get<std::string>(), HasSubstr("equal the formula in all 1"));
}

TEST_F(Report, OfOneRunHasOneVariant) {
  write_done(folder_.text(), result_json(0.9),
             {{"model", "mlp"},
              {"data", "digits"},
              {"strategy", "step-wise"},
              {"workers", 3},
              {"seed", 4},
              {"audit", true}});
  const Json data = run_report(folder_.text(), {"", ""});
  EXPECT_EQ(data["kind"], "run");
  ASSERT_EQ(data["variants"].size(), 1u);
  EXPECT_EQ(data["command"],
            "lockstep train --audit --data digits --model mlp --seed 4 --strategy step-wise "
            "--workers 3");
  EXPECT_EQ(data["runs"][0]["status"], "done");
}

TEST_F(Report, OfAFolderThatHoldsNeitherIsRefused) {
  EXPECT_THAT([&] { run_report(folder_.text(), {}); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("neither study.json nor run.json")));
}

}  // namespace
}  // namespace lockstep::study
