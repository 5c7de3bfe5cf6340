// Runs whose workers go apart, resumed.
#include <gmock/gmock.h>

#include <sstream>

#include "core/whole_file.h"
#include "train/apart_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::vector<std::string> resumed_strategies() {
  std::vector<std::string> all = strategies_that_go_apart();
  for (const char* more : {"gossip:p=.7", "downpour:push=3,fetch=2", "easgd:momentum=.5"})
    all.emplace_back(more);
  return all;
}

// What a run came to, as text that can be compared.
std::string simulated(const TrainConfig& config, const RunFolder& folder) {
  return in_a_process([&] {
    WorkerOptions options;
    options.folder = &folder;
    const TrainResult result = train_in("simulated", config, options).result;
    std::string text = result.model_sha256;
    for (const Score& score : result.scores)
      text += fmt::format(" {}:{}", score.steps, score.accuracy);
    for (const auto& rank : result.ranks) {
      const auto& all = rank.at("contributions");
      text += fmt::format(" {} {}", all.at("count").dump(), all.at("staleness").dump());
      for (const double weight : all.at("weight_by_worker")) text += fmt::format(" {:.9f}", weight);
    }
    std::istringstream lines(read_whole(folder.path() + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto score = nlohmann::json::parse(line);
      text += fmt::format("\n{}: {:.9f}", score.at("steps").get<int>(),
                          score.at("train_loss").get<double>());
    }
    return text;
  });
}

class ApartResumed : public ::testing::TestWithParam<std::string> {
 protected:
  ApartResumed() {
    config_.out = folder_.path();
    // No two workers are ever done at the same time.
    config_.cluster = cluster_of(GetParam(), "step=10ms,jitter=0.3,slow=rank1:2.0");
    config_.checkpoint_every = 5;
    config_.keep = 0;
    config_.evaluate_every = 3;
  }

  const TestFolder folder_;
  TrainConfig config_ = config_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Every, ApartResumed, ::testing::ValuesIn(resumed_strategies()), test_name);

TEST_P(ApartResumed, HasAllItHad) {
  const RunFolder folder = RunFolder::create(config_, {});
  const std::string whole = simulated(config_, folder);
  EXPECT_THAT(whole, HasSubstr(" 15:"));
  EXPECT_THAT(whole, AllOf(HasSubstr("\n15: "), Not(HasSubstr(": 0.0"))));
  for (const int step : {10, 15}) {
    config_.resume = folder.checkpoint(step);
    EXPECT_EQ(simulated(config_, folder), whole) << "from step " << step;
  }
}

TEST(Resumed, ACheckpointBeyondTheStepsIsRefused) {
  TrainConfig config = small_config();
  const TestFolder out;
  config.out = out.path();
  config.checkpoint_every = 4;
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  train_in("loopback", config, options);
  config.resume = folder.checkpoint(8);
  config.steps = 8;
  EXPECT_NO_THROW(Experiment(config, {}));
  config.steps = 7;
  EXPECT_THAT([&] { Experiment(config, {}); },
              ThrowsMessage<UsageError>(HasSubstr("after 8 steps, so it can't go on to step 7")));
}

}  // namespace
}  // namespace lockstep::testing
