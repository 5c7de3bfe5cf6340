// What a run leaves beside its scores: samples, timeline, who was waited for.
#include "train/recorder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/whole_file.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

class Recorded : public ::testing::Test {
 protected:
  Recorded() {
    config_ = small_config();
    config_.workers = 3;
    config_.data = "digits:samples=420,test_samples=30";  // whole batches: 7 steps
    config_.out = folder_ / "run";
  }

  Json run(const std::string& world) {
    const RunFolder folder = RunFolder::create(config_, {});
    WorkerOptions options;
    options.folder = &folder;
    return summary(config_, train_in(world, config_, options).result);
  }
  std::string at(const std::string& name) const { return config_.out + "/" + name; }
  Json timeline() const { return Json::parse(read_whole(at("timeline.json"))).at("traceEvents"); }
  // Seconds in a lane of a rank.
  double seconds_in(const std::string& lane, int rank) const {
    double sum = 0;
    for (const Json& e : timeline())
      if (e.value("cat", "") == lane && e.at("pid") == rank + 1)
        sum += e.at("dur").get<double>() * 1e-6;
    return sum;
  }
  // A rank's events of that name, as {start, end} in microseconds.
  std::vector<std::pair<double, double>> spans(const std::string& name, int rank) const {
    std::vector<std::pair<double, double>> all;
    for (const Json& e : timeline())
      if (e.at("name") == name && e.at("pid") == rank + 1)
        all.emplace_back(e.at("ts").get<double>(),
                         e.at("ts").get<double>() + e.at("dur").get<double>());
    return all;
  }
  // How many microseconds of that name go on while the rank is in backward.
  double beside_backward_us(const std::string& name, int rank) const {
    double sum = 0;
    for (const auto& [begin, end] : spans("backward", rank))
      for (const auto& [start, stop] : spans(name, rank))
        sum += std::max(0.0, std::min(end, stop) - std::max(begin, start));
    return sum;
  }

  const Folder folder_;
  TrainConfig config_;
};

TEST_F(Recorded, TheStragglerIsNamed) {
  config_.cluster = "sim:step=10ms,slow=rank1:3.0";
  const Json run = this->run("simulated");
  EXPECT_EQ(run.at("straggler"), 1);
  const Json& ranks = run.at("workers_detail");
  EXPECT_EQ(ranks[1].at("waited_for_steps"), run.at("steps"));
  EXPECT_EQ(ranks[0].at("waited_for_steps"), 0);
  EXPECT_NEAR(ranks[1].at("waited_for_seconds").get<double>(),
              ranks[0].at("wait_seconds").get<double>() + ranks[2].at("wait_seconds").get<double>(),
              1e-9);
  EXPECT_EQ(lines_of(at("metrics.jsonl")).back().at("waited_for"), 1);
}

TEST_F(Recorded, NobodyIsNamedWhereAllAreAlike) {
  config_.cluster = "sim:step=10ms";
  const Json run = this->run("simulated");
  EXPECT_TRUE(run.at("straggler").is_null());
  EXPECT_TRUE(lines_of(at("metrics.jsonl")).back().at("waited_for").is_null());
}

TEST_F(Recorded, ServersWaitByTradeAndThatCountsForNothing) {
  config_.strategy = "parameter-server";
  config_.servers = 1;
  config_.cluster = "sim:step=10ms";
  const Json run = this->run("simulated");
  EXPECT_GT(run.at("workers_detail")[3].at("wait_seconds").get<double>(), 0.05);
  EXPECT_TRUE(run.at("straggler").is_null());
}

TEST_F(Recorded, TheTimelineAgreesWithTheSummary) {
  config_.cluster = "sim:step=10ms,slow=rank1:3.0";
  const Json run = this->run("simulated");
  for (int r = 0; r < 3; ++r) {
    const Json& rank = run.at("workers_detail")[r];
    for (const std::string lane : {"compute", "communicate", "wait"})
      EXPECT_NEAR(seconds_in(lane, r), rank.at(lane + "_seconds").get<double>(), 1e-6) << lane << r;
  }
}

// A bucket for each of the four tensors, encoded.
void send_in_buckets(TrainConfig& config, const std::string& overlap) {
  config.cluster = "sim:step=10ms,bandwidth=10Mbps";
  config.compress = "fp16";
  config.overlap = overlap;
  config.bucket_mib = 0;
  if (overlap == "none") config.buckets = "10,160,16,12544";
}

TEST_F(Recorded, BucketsAreShownBesideBackwardWithOverlap) {
  send_in_buckets(config_, "wfbp");
  const Json run = this->run("simulated");
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(spans("backward", r).size(), run.at("steps"));
    EXPECT_EQ(spans("exchange", r).size(), 4 * run.at("steps").get<std::size_t>());
    EXPECT_GT(beside_backward_us("exchange", r), 0);
    EXPECT_NEAR(beside_backward_us("exchange", r) * 1e-6,
                run.at("workers_detail")[r].at("hidden_seconds").get<double>(), 1e-5);
  }
}

TEST_F(Recorded, BucketsComeAfterBackwardWithoutOverlap) {
  send_in_buckets(config_, "none");
  const Json run = this->run("simulated");
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(spans("exchange", r).size(), 4 * run.at("steps").get<std::size_t>());
    EXPECT_NEAR(beside_backward_us("exchange", r), 0, 1e-6);
  }
}

// Or viewers would draw one inside another.
TEST_F(Recorded, EventsOfALaneFollowEachOther) {
  send_in_buckets(config_, "wfbp");
  config_.cluster = "local";
  run("loopback");
  std::map<int, std::map<double, double>> lanes;
  std::set<int> buckets;
  for (const Json& e : timeline()) {
    if (e.at("ph") != "X") continue;
    const double start = e.at("ts");
    lanes[e.at("tid").get<int>()][start] = start + e.at("dur").get<double>();
    if (e.at("name") == "exchange") buckets.insert(e.at("args").at("bucket").get<int>());
  }
  EXPECT_THAT(buckets, ::testing::ElementsAre(0, 1, 2, 3));
  for (const auto& [tid, events] : lanes) {
    double ended = 0;
    for (const auto& [start, end] : events) {
      EXPECT_GE(start, ended - 0.01) << tid;  // as far as it is rounded
      ended = end;
    }
  }
}

TEST_F(Recorded, OnlyStepsOfTheWindowAreShown) {
  config_.timeline = "2-4";
  run("loopback");
  std::set<int> steps;
  for (const Json& e : timeline())
    if (e.at("ph") == "X") steps.insert(e.at("args").at("step").get<int>());
  EXPECT_THAT(steps, ::testing::ElementsAre(2, 3, 4));
}

TEST_F(Recorded, EvaluationIsShownToo) {
  run("loopback");
  for (int r = 0; r < 3; ++r) EXPECT_GT(seconds_in("evaluate", r), 0);
}

TEST_F(Recorded, SimulatedRanksLeaveWhatTheModelKnows) {
  config_.cluster = "sim:step=10ms";
  config_.sample_every = 0.02;
  const Json run = this->run("simulated");
  for (int r = 0; r < 3; ++r) {
    const auto lines = lines_of(at("worker-" + std::to_string(r) + ".jsonl"));
    ASSERT_GE(lines.size(), 4u);
    EXPECT_EQ(lines[0].at("rank"), r);
    EXPECT_EQ(lines[0].at("simulated"), true);
    EXPECT_TRUE(lines.back().at("private_bytes").is_null());
    const Json& rank = run.at("workers_detail")[r];
    const Json& network = lines.back().at("network");
    EXPECT_EQ(lines.back().at("step"), run.at("steps"));
    EXPECT_EQ(network.at("exchange").at("bytes_sent"), rank.at("bytes_sent"));
    EXPECT_EQ(network.at("exchange").at("bytes_received"), rank.at("bytes_received"));
    EXPECT_EQ(network.at("exchange").at("messages_sent"), rank.at("messages_sent"));
    EXPECT_EQ(network.at("other").at("bytes_sent"), rank.at("bytes_other"));
  }
}

TEST_F(Recorded, LargeSimulationsLeaveNoSamplesUnlessAsked) {
  config_.workers = 65;
  complete(config_);
  config_.cluster = "sim:step=10ms";
  complete_records(config_);
  EXPECT_EQ(config_.sample_every, 0);
  EXPECT_EQ(config_.timeline, "none");
  config_.sample_every = 0.5;
  config_.timeline = "1-3";
  complete_records(config_);
  EXPECT_EQ(config_.sample_every, 0.5);
  EXPECT_EQ(config_.timeline, "1-3");
}

TEST_F(Recorded, AResumedRunGoesOnWithTheFiles) {
  config_.cluster = "sim:step=10ms,slow=rank1:3.0";
  config_.sample_every = 0.001;
  config_.tensorboard = true;
  config_.evaluate_every = 1;
  config_.checkpoint_every = 3;
  const RunFolder folder = RunFolder::create(config_, {});
  WorkerOptions options;
  options.folder = &folder;
  // Stops after the checkpoint, having written of a step that will be taken again.
  options.stopped = [] { return false; };
  options.stopped_after = [](std::uint64_t taken) { return taken == 4; };
  EXPECT_THROW(train_in("simulated", config_, options), Stopped);
  config_.resume = folder.checkpoint(3);
  options.stopped = {};
  options.stopped_after = {};
  // A simulation needs a process to itself, so it goes on as threads: the files don't care.
  config_.cluster = "local";
  const Json run = summary(config_, train_in("loopback", config_, options).result);
  EXPECT_GE(run.at("workers_detail")[1].at("waited_for_steps"), 3);
  std::vector<int> steps, scores;
  double before = -1;
  for (const Json& line : lines_of(at("worker-1.jsonl"))) {
    if (line.contains("kind")) continue;
    steps.push_back(line.at("step"));
    EXPECT_GT(line.at("t").get<double>(), before);
    before = line.at("t");
  }
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_EQ(steps.back(), 7);
  for (const Json& line : lines_of(at("metrics.jsonl"))) scores.push_back(line.at("steps"));
  EXPECT_EQ(scores, (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  std::map<int, int> computed;
  for (const Json& e : timeline())
    if (e.at("name") == "evaluate" && e.at("pid") == 1) ++computed[e.at("args").at("step")];
  EXPECT_EQ(computed.size(), 7u);
  for (const auto& [step, times] : computed) EXPECT_EQ(times, 1) << step;
  EXPECT_TRUE(fs::exists(at("events.out.tfevents.lockstep")));
}

TEST_F(Recorded, NothingIsLeftWhereNothingIsAskedFor) {
  config_.sample_every = 0;
  config_.timeline = "none";
  run("loopback");
  EXPECT_FALSE(fs::exists(at("worker-0.jsonl")));
  EXPECT_FALSE(fs::exists(at("timeline.json")));
  EXPECT_FALSE(fs::exists(at("events.out.tfevents.lockstep")));
  EXPECT_TRUE(fs::exists(at("metrics.jsonl")));
}

}  // namespace
}  // namespace lockstep::testing
