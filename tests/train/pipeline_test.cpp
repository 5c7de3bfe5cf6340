// Whole trainings whose network is cut over workers, in every world that fits into one process.
#include <gmock/gmock.h>

#include "parallel/forecast.h"
#include "runs.h"
#include "strategies/audit/audit.h"
#include "train/checkpoint.h"
#include "train/pipeline_parts.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

TrainConfig small_pipeline(const std::string& pipeline, int workers, int replicas) {
  TrainConfig config = small_config();
  config.model = "mlp:width=16,depth=4";
  config.pipeline = pipeline;
  config.workers = workers * replicas;
  config.replicas = replicas;
  config.global_batch = 40;
  config.epochs = 0;
  config.steps = 6;
  config.evaluate_every = 3;
  return config;
}

// One worker with the whole network.
TrainConfig alone() {
  TrainConfig config = small_pipeline("", 1, 1);
  config.replicas = 0;
  return config;
}

void expect_same_course(const TrainResult& found, const TrainResult& expected) {
  ASSERT_EQ(found.scores.size(), expected.scores.size());
  for (std::size_t i = 0; i < found.scores.size(); ++i) {
    EXPECT_NEAR(found.scores[i].train_loss, expected.scores[i].train_loss, 2e-5);
    EXPECT_NEAR(found.scores[i].loss, expected.scores[i].loss, 2e-5);
    EXPECT_NEAR(found.scores[i].accuracy, expected.scores[i].accuracy, 0.011);
  }
  EXPECT_EQ(found.samples, expected.samples);
  EXPECT_EQ(found.steps, expected.steps);
}

struct Shape {
  std::string spec;
  int workers, replicas;
};
void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.spec << " x " << shape.replicas;
}
class Pipelines : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Every, Pipelines,
    ::testing::Values(Shape{"1:schedule=plain", 1, 1}, Shape{"1:schedule=plain", 1, 4},
                      Shape{"4:schedule=plain", 4, 1},
                      Shape{"2:schedule=gpipe,microbatches=4", 2, 2},
                      Shape{"4:schedule=1f1b,microbatches=8", 4, 1},
                      Shape{"3:schedule=1f1b,microbatches=3", 3, 2},
                      Shape{"2:schedule=interleaved,microbatches=4", 2, 1},
                      Shape{"3:schedule=zb-h1,microbatches=4", 3, 1},
                      Shape{"2:schedule=1f1b,folded=on,microbatches=4", 2, 1},
                      Shape{"2:schedule=gems", 2, 1}, Shape{"3:schedule=gems", 3, 1},
                      Shape{"2:schedule=gems,times=2,microbatches=2", 2, 2}),
    [](const auto& info) {
      std::string name = info.param.spec + "x" + std::to_string(info.param.replicas);
      std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
      return name;
    });

// K = 1 is data parallel, R = 1 model parallel, both 1 sequential: all take the same course.
TEST_P(Pipelines, TakeOneWorkersCourse) {
  const auto& [spec, workers, replicas] = GetParam();
  TrainConfig config = small_pipeline(spec, workers, replicas);
  config.audit = true;
  expect_same_course(train_in("loopback", config).result, train_in("loopback", alone()).result);
}

TEST(PipelineRuns, AreTheSameOverSharedMemoryAndSimulated) {
  const TrainConfig config = small_pipeline("2:schedule=1f1b,microbatches=4,folded=off", 2, 2);
  const std::string sha = train_in("loopback", config).result.model_sha256;
  EXPECT_EQ(sha.size(), 64u);
  EXPECT_EQ(train_in("shm", config).result.model_sha256, sha);
  EXPECT_EQ(train_in("simulated", config).result.model_sha256, sha);
}

TEST(PipelineRuns, PlainOnesComeToOneWorkersBits) {
  EXPECT_EQ(train_in("loopback", small_pipeline("3:schedule=plain", 3, 1)).result.model_sha256,
            train_in("loopback", alone()).result.model_sha256);
}

TEST(PipelineRuns, WriteOneWholeModel) {
  const TestFolder place;
  TrainConfig config = small_pipeline("3:schedule=1f1b,microbatches=4", 3, 1);
  config.audit = true;
  config.out = place.path();
  config.balance = "2,1,2";
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult result = train_in("loopback", config, options).result;
  EXPECT_TRUE(std::filesystem::exists(folder.model()));
  EXPECT_EQ(result.model_sha256.size(), 64u);
}

TEST(PipelineRuns, GoOnFromACheckpointToTheSameBits) {
  const TestFolder place;
  TrainConfig config = small_pipeline("2:schedule=gems,microbatches=2", 2, 1);
  config.out = place.path();
  config.checkpoint_every = 2;
  config.keep = 0;
  const RunFolder folder = RunFolder::create(config, {});
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult whole = train_in("loopback", config, options).result;
  RunBefore before = run_to_resume(folder.checkpoint(4));
  const TrainResult rest = train_in("loopback", before.config, options).result;
  EXPECT_EQ(rest.model_sha256, whole.model_sha256);
  EXPECT_EQ(rest.samples, whole.samples);
}

// Bubbles and times of steps in simulation, with equal stages and a network that takes no time.
struct Timed {
  std::string spec;
  int workers;
  PassTimes times;  // of a micro-batch at a stage
};
constexpr int kTimedSteps = 40;  // so that what is left open at either end does not count
// Virtual seconds of a step, and the share of them in which workers waited.
std::pair<double, double> simulated_step(const Timed& timed) {
  TrainConfig config = small_pipeline(timed.spec, timed.workers, 1);
  config.global_batch = 0;
  config.batch = 24;
  config.data = "digits:samples=768,test_samples=100";
  config.steps = kTimedSteps;
  config.evaluate_every = 0;
  config.model = fmt::format("mlp:width=16,depth={}", 2 * timed.workers);
  config.cluster = "sim:numerics=off,step=1,bandwidth=1000000Gbps,latency=1ns";
  const std::string text = in_a_process([&] {
    complete(config);
    check(config);
    Experiment experiment(config, {});
    const PipelineSchedule& schedule = experiment.pipelines->schedule;
    // A step of one worker takes a second: a stage's shares are those of its times in all passes.
    const double micros = schedule.micros * schedule.replicas;
    experiment.pipelines->shares.assign(
        schedule.stages, {timed.times.forward_s * micros, timed.times.backward_inputs_s * micros,
                          timed.times.backward_weights_s * micros});
    SimulatedCluster cluster = experiment.simulation->cluster;
    cluster.lanes = experiment.lanes();
    TrainResult result;
    run_simulated(cluster, [&](Rank& rank) {
      WorkerOutcome mine = train(rank, experiment);
      if (mine.leads) result = std::move(mine.result);
    });
    const auto all = summary(config, result);
    return fmt::format("{} {}", all["train_seconds"].get<double>() / kTimedSteps,
                       all["pipeline"]["bubble"].get<double>());
  });
  std::pair<double, double> found;
  std::istringstream(text) >> found.first >> found.second;
  return found;
}

class Bubbles : public ::testing::TestWithParam<Timed> {};
INSTANTIATE_TEST_SUITE_P(
    Every, Bubbles,
    ::testing::Values(Timed{"2:schedule=gpipe,recompute=off,microbatches=4", 2, {1, 1, 1}},
                      Timed{"4:schedule=1f1b,microbatches=8", 4, {1, 1, 1}},
                      Timed{"3:schedule=1f1b,microbatches=12", 3, {1, 1.5, 0.5}},
                      Timed{"2:schedule=interleaved,microbatches=8", 2, {1, 1, 1}},
                      Timed{"4:schedule=interleaved,microbatches=8,chunks=2", 4, {1, 1, 1}},
                      Timed{"3:schedule=zb-h1,microbatches=6", 3, {1, 1, 1}},
                      Timed{"4:schedule=zb-h1,microbatches=8", 4, {1, 1, 1.4}},
                      Timed{"2:schedule=gems", 2, {1, 1, 1}},
                      Timed{"4:schedule=gems,times=2", 4, {1, 1, 1}},
                      Timed{"3:schedule=gems,times=4", 3, {2, 0.5, 0.5}}));
TEST_P(Bubbles, AreThoseOfTheForecastInSimulation) {
  const Timed& timed = GetParam();
  const PipelineRequest request = read_pipeline(timed.spec);
  const PipelineSchedule schedule = pipeline_schedule(request.spec, request.workers);
  const std::vector<PassTimes> times(schedule.stages, timed.times);
  const Forecast expected = forecast(schedule, times);
  const auto [step_s, bubble] = simulated_step(timed);
  EXPECT_NEAR(step_s / expected.makespan_s, 1, 0.02);
  EXPECT_NEAR(bubble, expected.bubble(), 0.02 * expected.bubble());
  if (schedule.replicas == 2) {  // GEMS' formula: see algorithms of gems.cpp
    const double f = timed.times.forward_s, b = timed.times.backward_s(), k = schedule.workers;
    const double batches = 2.0 * schedule.batches;
    EXPECT_NEAR(step_s, k * (f + b) + (batches - 1) * (std::min(f, b) + k * std::max(f, b)),
                0.02 * step_s);
  }
}

// Refusals, each with its reason.
std::string refusal(const std::function<void(TrainConfig&)>& change) {
  TrainConfig config = small_pipeline("2:schedule=1f1b,microbatches=4", 2, 2);
  change(config);
  try {
    complete(config);
    check(config);
    const Experiment experiment(config, {});
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(PipelineRefusals, SayWhy) {
  EXPECT_EQ(refusal([](TrainConfig&) {}), "");
  const auto with = [](const std::string& pipeline, int workers) {
    return refusal([=](TrainConfig& config) {
      config.pipeline = pipeline;
      config.workers = workers;
      config.replicas = 0;
    });
  };
  EXPECT_THAT(with("4", 6), HasSubstr("a pipeline of 4 workers needs 4, or a multiple"));
  EXPECT_THAT(with("9", 9), HasSubstr("blocks"));
  EXPECT_THAT(with("2:microbatches=50", 2), HasSubstr("can't be cut into 50 micro-batches"));
  EXPECT_THAT(with("2:schedule=interleaved,microbatches=3", 2), HasSubstr("multiple"));
  EXPECT_THAT(with("2:schedule=nothing", 2), HasSubstr("schedule"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.strategy = "asp"; }), HasSubstr("use all-reduce"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.strategy = "local-sgd"; }),
              HasSubstr("use all-reduce"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.workers = 3; }), HasSubstr("takes 4 workers, not 3"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.balance = "2,2,1"; }), HasSubstr("3 stages"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.memory_limit = "2KiB"; }), HasSubstr("fits in"));
  EXPECT_THAT(refusal([](TrainConfig& c) {
                c.pipeline.clear();
                c.replicas = 2;
              }),
              HasSubstr("--replicas goes with --pipeline"));
}

}  // namespace
}  // namespace lockstep::testing
