// A network cut over the workers of a pipeline learns as one worker does that has the same
// micro-batches: bit for bit where nothing is added in another order, else to rounding.
#include "train/staged_learner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "data/loader.h"
#include "folder.h"
#include "train/measure_blocks.h"
#include "train/staged_networks.h"
#include "transport/fabric.h"

namespace lockstep::testing {
namespace {

// Of fp32, which rounds to 6e-8: sums of some hundred numbers in another order.
constexpr double kRounding = 1e-5;
constexpr std::size_t kBatch = 11;  // no multiple of anything
constexpr std::uint64_t kSteps = 3;

struct Learned {
  std::vector<double> losses;
  std::vector<Named> gradients;  // of each step
  Named weights;
  std::vector<float> statistics;  // in the order of blocks
};

Learned learn(StagedPipeline& pipeline, const MakeNetwork& make) {
  Learned learned;
  for (std::uint64_t step = 0; step < kSteps; ++step)
    learned.losses.push_back(pipeline.train(step, learned.gradients.emplace_back()));
  learned.weights = pipeline.weights();
  const auto whole = drawn(make);
  join_parts(*whole, pipeline.schedule(), pipeline.counts(), pipeline.models());
  learned.statistics = whole->numbers().buffers;
  return learned;
}

Learned learn(const Experiment& experiment, const std::string& schedule, int workers,
              const MakeNetwork& make, const BlockCounts& counts = {}) {
  StagedPipeline pipeline(experiment, schedule, workers, make, counts);
  return learn(pipeline, make);
}

void expect_equal(const Learned& found, const Learned& expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.gradients, expected.gradients);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.statistics, expected.statistics);
}

void expect_close(const Learned& found, const Learned& expected) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], kRounding);
    // Weights that differ by rounding make gradients differ by a little more.
    expect_near(found.gradients[step], expected.gradients[step], kRounding * (step == 0 ? 1 : 10));
  }
  expect_near(found.weights, expected.weights, kRounding);
}

MakeNetwork network_named(const std::string& name, Extras extras) {
  if (name == "unet") return [=] { return tiny_unet(extras); };
  return [=] { return chain(12, extras); };
}

constexpr Extras kAll{.norm = true, .dropout = 0.3};

// With the micro-batches of each: `#` stands for one that all numbers of workers divide.
const std::vector<std::string> kSchedules = {"plain:microbatches=4",
                                             "plain:microbatches=3,folded=on",
                                             "gpipe:microbatches=4,recompute=off",
                                             "gpipe:microbatches=4",
                                             "gpipe:microbatches=5,folded=on",
                                             "1f1b:microbatches=7",
                                             "1f1b:microbatches=4,folded=on",
                                             "zb-h1:microbatches=5",
                                             "interleaved:microbatches=#",
                                             "gems:microbatches=2,times=1",
                                             "gems:microbatches=1,times=3"};

std::string spec_for(std::string schedule, int workers) {
  if (const auto at = schedule.find('#'); at != std::string::npos)
    schedule.replace(at, 1, std::to_string(workers > 2 ? workers : 2 * workers));
  return schedule;
}

class EverySchedule : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls it for 1 to 6 workers, as far as the network has blocks for their stages.
  static void for_each(int blocks,
                       const std::function<void(const std::string& spec, int workers)>& f) {
    for (int workers = 1; workers <= 6; ++workers) {
      const std::string spec = spec_for(GetParam(), workers);
      if (pipeline_schedule(spec, workers).stages > blocks) break;
      SCOPED_TRACE(fmt::format("{} on {} workers", spec, workers));
      f(spec, workers);
      if (HasFatalFailure()) return;
    }
  }
};
std::string letters(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Staged, EverySchedule, ::testing::ValuesIn(kSchedules),
                         [](const auto& info) { return letters(info.param); });

TEST_P(EverySchedule, LearnsAsOneWorkerWithTheSameMicroBatches) {
  const Experiment experiment = staged_experiment(kBatch);
  for (const std::string network : {"unet", "chain"}) {
    SCOPED_TRACE(network);
    const MakeNetwork make = network_named(network, kAll);
    for_each(network == "unet" ? 6 : 12, [&](const std::string& spec, int workers) {
      const PipelineSchedule schedule = pipeline_schedule(spec, workers);
      // GEMS cuts batches into micro-batches, which makes others: it is compared with itself.
      const bool gems = schedule.placement == StagePlacement::gems;
      const Learned expected = learn(
          experiment, gems ? spec : fmt::format("plain:microbatches={}", schedule.micros), 1, make);
      const Learned found = learn(experiment, spec, workers, make);
      gems || spec.starts_with("zb") ? expect_close(found, expected)
                                     : expect_equal(found, expected);
    });
  }
}

// What autograd makes of the whole batch at once.
Named gradients_of_batch(const Experiment& experiment, const MakeNetwork& make, double& loss) {
  const auto network = drawn(make);
  Plan plan = experiment.plan;
  const auto indices = plan.indices(0, 0, 0);
  const Batch batch = Loader(
                          *experiment.data.train,
                          [&](std::uint64_t) {
                            return Picks{{indices.begin(), indices.end()}, 1};
                          },
                          1)
                          .batch(0);
  const torch::Tensor mean =
      torch::nn::functional::cross_entropy(network->forward(batch.x), batch.y);
  mean.backward();
  loss = mean.item<double>();
  Named gradients;
  for (const auto& [name, tensor] : network->parameters()) {
    const torch::Tensor gradient = tensor.grad().contiguous();
    const auto* first = gradient.data_ptr<float>();
    gradients[name].assign(first, first + gradient.numel());
  }
  return gradients;
}

TEST_P(EverySchedule, GradientsAreTheMeanOverAllSamples) {
  const Experiment experiment = staged_experiment(kBatch);
  for (const std::string network : {"unet", "chain"}) {
    SCOPED_TRACE(network);
    const MakeNetwork make = network_named(network, {});
    double loss = 0;
    const Named expected = gradients_of_batch(experiment, make, loss);
    for_each(network == "unet" ? 6 : 12, [&](const std::string& spec, int workers) {
      StagedPipeline pipeline(experiment, spec, workers, make);
      EXPECT_NEAR(pipeline.step(0), loss, kRounding);
      pipeline.average();
      expect_near(pipeline.gradients(), expected, kRounding);
    });
  }
}

// A network that is not cut, in one micro-batch, is LibTorch's own.
TEST(StagedLearner, OneStageHasTheBitsOfAutograd) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("unet", {});
  double loss = 0;
  const Named expected = gradients_of_batch(experiment, make, loss);
  StagedPipeline pipeline(experiment, "plain", 1, make);
  EXPECT_EQ(pipeline.step(0), loss);
  EXPECT_EQ(pipeline.gradients(), expected);
}

TEST(StagedLearner, AnyCutOfAUNetHasTheBitsOfOneStage) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("unet", kAll);
  const Learned expected = learn(experiment, "1f1b:microbatches=3", 1, make);
  int cuts = 0;
  for (int cut = 0; cut < 1 << 5; ++cut) {  // a bit for each place between two blocks
    BlockCounts counts{1};
    for (int place = 0; place < 5; ++place)
      (cut >> place & 1) != 0 ? counts.push_back(1) : void(++counts.back());
    SCOPED_TRACE(in_words(counts));
    const int workers = static_cast<int>(counts.size());
    expect_equal(learn(experiment, "1f1b:microbatches=3", workers, make, counts), expected);
    ++cuts;
  }
  EXPECT_EQ(cuts, 32);
}

// The second step of an epoch of 14 has three samples, and so some micro-batches have none; a third
// step begins the next epoch.
TEST_P(EverySchedule, AStepMayHaveFewerSamplesThanMicroBatches) {
  const Experiment experiment = staged_experiment(kBatch, kBatch + 3);
  const MakeNetwork make = network_named("chain", {.dropout = 0.3});
  for_each(12, [&](const std::string& spec, int workers) {
    const PipelineSchedule schedule = pipeline_schedule(spec, workers);
    const bool gems = schedule.placement == StagePlacement::gems;
    const Learned expected = learn(
        experiment, gems ? spec : fmt::format("plain:microbatches={}", schedule.micros), 1, make);
    expect_close(learn(experiment, spec, workers, make), expected);
    EXPECT_GT(expected.losses[1], 0);
  });
}

TEST(StagedLearner, DropoutGoesByStepMicroBatchAndBlock) {
  const Experiment experiment = staged_experiment(8);
  const auto losses = [&](double dropout, const std::string& schedule) {
    StagedPipeline pipeline(experiment, schedule, 2, network_named("chain", {.dropout = dropout}));
    return std::vector{pipeline.step(0), pipeline.step(1), pipeline.step(0)};
  };
  const std::vector<double> with = losses(0.3, "1f1b:microbatches=2");
  EXPECT_EQ(with[0], with[2]) << "the weights have not changed";
  EXPECT_NE(with[0], losses(0, "1f1b:microbatches=2")[0]);
  EXPECT_EQ(with, losses(0.3, "gpipe:microbatches=2"));
  EXPECT_NE(with, losses(0.3, "1f1b:microbatches=4")) << "other micro-batches draw others";
}

TEST_P(EverySchedule, AnswersTheTestSetAsTheWholeNetwork) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("unet", kAll);
  const auto whole = drawn(make);
  whole->train(false);
  const Slice part{2, 20};
  const Batch batch = Loader(
                          *experiment.data.test,
                          [&](std::uint64_t) {
                            Picks picks;
                            for (std::size_t i = part.begin; i < part.end(); ++i)
                              picks.indices.push_back(static_cast<std::uint32_t>(i));
                            return picks;
                          },
                          1)
                          .batch(0);
  const torch::Tensor output = whole->forward(batch.x);
  const double loss =
      torch::nn::functional::cross_entropy(output, batch.y).item<double>() * part.count;
  const auto correct = output.argmax(1).eq(batch.y).sum().item<double>();
  for_each(6, [&](const std::string& spec, int workers) {
    StagedPipeline pipeline(experiment, spec, workers, make);
    const auto before = pipeline.models();
    const Tally tally = pipeline.test(part);
    EXPECT_NEAR(tally.loss_sum, loss, 1e-4);
    EXPECT_EQ(std::accumulate(tally.correct.begin(), tally.correct.end(), 0.0), correct);
    EXPECT_EQ(std::accumulate(tally.samples.begin(), tally.samples.end(), 0.0), 20);
    for (int worker = 0; worker < workers; ++worker)
      EXPECT_EQ(pipeline.models()[worker].statistics, before[worker].statistics);
    EXPECT_GT(pipeline.step(0), 0) << "training goes on";
  });
}

// For strategies that begin before backward has ended.
TEST_P(EverySchedule, TellsEachPartOnceInItsLastBackward) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("chain", kAll);
  for_each(12, [&](const std::string& spec, int workers) {
    StagedPipeline pipeline(experiment, spec, workers, make);
    StagedPipeline silent(experiment, spec, workers, make);
    std::vector<std::vector<float>> told(workers);
    std::vector<int> early(workers);
    bool closes = true;
    for (int worker = 0; worker < workers; ++worker) {
      Replica& replica = pipeline.learner(worker).replica();
      told[worker].assign(replica.weights().count(), NAN);
      pipeline.learner(worker).on_slice_ready([&, worker](Slice part) {
        const float* now = StagedPipeline::floats(replica.gradients());
        for (std::size_t i = part.begin; i < part.end(); ++i) {
          EXPECT_TRUE(std::isnan(told[worker][i])) << "told twice";
          told[worker][i] = now[i];
        }
        if (!closes) early[worker] += static_cast<int>(part.count);
      });
    }
    pipeline.before = [&](int, const Action&) { closes = false; };
    pipeline.after = [&](int, const Action&) { closes = true; };
    for (std::uint64_t step = 0; step < 2; ++step) {
      pipeline.step(step);
      silent.step(step);
      for (int worker = 0; worker < workers; ++worker) {
        const float* last = StagedPipeline::floats(silent.learner(worker).replica().gradients());
        EXPECT_EQ(told[worker], std::vector<float>(last, last + told[worker].size()));
        EXPECT_GT(early[worker], std::ssize(told[worker]) / 2) << "while backward runs";
        std::ranges::fill(told[worker], NAN);
        early[worker] = 0;
      }
    }
  });
}

// The memory of a micro-batch is let go as soon as its backward is done, and what a schedule keeps
// is what stash.h says.
class StashOf : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Staged, StashOf,
                         ::testing::Values("plain:microbatches=8",
                                           "gpipe:microbatches=8,recompute=off",
                                           "gpipe:microbatches=8", "1f1b:microbatches=8",
                                           "zb-h1:microbatches=8", "interleaved:microbatches=8",
                                           "1f1b:microbatches=8,folded=on",
                                           "gems:microbatches=2,times=2"),
                         [](const auto& info) { return letters(info.param); });

TEST_P(StashOf, EachWorkerIsThatOfTheSchedule) {
  constexpr std::int64_t kSamples = 8;  // of a micro-batch
  const Experiment experiment = staged_experiment(8 * kSamples);
  const MakeNetwork make = [] { return chain(24, {.norm = true}); };
  const NetworkCosts costs =
      measure_blocks(*drawn(make), torch::randn({kSamples, kChannels, kPixels, kPixels}), 1);
  StagedPipeline pipeline(experiment, GetParam(), 4, make);
  const PipelineSchedule& schedule = pipeline.schedule();
  std::vector<StashBytes> stash;
  for (const StageCosts& stage :
       Partitioner(costs, {}, stashes(schedule)).stages(pipeline.counts()))
    stash.push_back(stage.stash);
  stash[0].inputs = 0;  // samples are views of the batch
  const std::vector<std::uint64_t> expected = peak_stash_bytes(schedule, stash);
  pipeline.step(0);
  // What comes and goes with a pass: messages both ways, and numbers by the sample.
  const std::uint64_t slack = 4 * costs.blocks[0].output_bytes + 4096;
  for (int worker = 0; worker < 4; ++worker) {
    EXPECT_LE(pipeline.peak_bytes()[worker], expected[worker] + slack) << worker;
    EXPECT_GE(pipeline.peak_bytes()[worker] + slack, expected[worker]) << worker;
  }
  EXPECT_GT(expected[0], 2 * slack) << "so it can be told";
}

TEST(StagedLearner, NamesTheGradientThatIsNotFinite) {
  const Experiment experiment = staged_experiment(kBatch);
  for (const bool tells : {false, true}) {
    StagedPipeline pipeline(experiment, "1f1b:microbatches=2", 2, network_named("chain", {}));
    Learner& second = pipeline.learner(1);
    if (tells) pipeline.learner(0).on_slice_ready([](Slice) {});
    const Slice head = second.replica().parameters().back().slice;
    StagedPipeline::floats(second.replica().weights())[head.begin] = NAN;
    try {
      pipeline.step(4);
      FAIL() << "nothing was found";
    } catch (const BadGradient& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("rank 0, step 4: the gradient of layer"));
    }
  }
}

TEST(StagedLearner, PartsMakeUpTheWholeNetwork) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("unet", kAll);
  const Folder folder;
  for (const std::string schedule : {"1f1b", "gems", "interleaved:microbatches=3"}) {
    StagedPipeline pipeline(experiment, schedule, 3, make);
    Named unused;
    pipeline.train(0, unused);
    const auto whole = drawn(make);
    join_parts(*whole, pipeline.schedule(), pipeline.counts(), pipeline.models());
    const Named weights = pipeline.weights();
    for (const auto& [name, tensor] : whole->parameters()) {
      const auto* first = tensor.data_ptr<float>();
      EXPECT_EQ(weights.at(name), std::vector<float>(first, first + tensor.numel())) << name;
    }
    for (int worker = 0; worker < 3; ++worker) {
      const std::string path = folder / fmt::format("{}.pt", worker);
      pipeline.learner(worker).save_model(path);
      const Model saved = pipeline.learner(worker).read_model(path);
      EXPECT_EQ(saved.weights, pipeline.models()[worker].weights);
      EXPECT_FALSE(saved.statistics.empty());
    }
    whole->save(folder / "whole.pt");
    EXPECT_EQ(drawn(make)->read_saved(folder / "whole.pt").parameters, whole->numbers().parameters);
    EXPECT_THROW(join_parts(*whole, pipeline.schedule(), pipeline.counts(), {}), InternalError);
  }
}

// Both replicas of GEMS have the middle stage on one worker, each with statistics of its own. A
// model is scored with their mean, and then each goes on with its own.
TEST(StagedLearner, StatisticsOfTwoReplicasStayApart) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("chain", {.norm = true});
  StagedPipeline scored(experiment, "gems", 3, make), silent(experiment, "gems", 3, make);
  Learner& middle = scored.learner(1);
  for (std::uint64_t step = 0; step < 3; ++step) {
    Named mine, theirs;
    EXPECT_EQ(scored.train(step, mine), silent.train(step, theirs));
    EXPECT_EQ(mine, theirs);
    const std::vector<float> own = middle.statistics();
    ASSERT_EQ(own.size(), 2u * 4 * 2 * 4) << "of 4 layers, means and variances of 4 channels";
    const std::vector<float> first(own.begin(), own.begin() + 32),
        second(own.begin() + 32, own.end());
    EXPECT_NE(first, second);
    middle.set_statistics(std::vector<float>(64, 2));
    EXPECT_EQ(middle.statistics(), std::vector<float>(64, 2));
    scored.test({0, 10});
    middle.set_statistics(own);
    scored.test({0, 10});
    EXPECT_EQ(middle.statistics(), own);
  }
  EXPECT_EQ(middle.statistics(), silent.learner(1).statistics());
  EXPECT_THROW(middle.set_statistics({1}), InternalError);

  // The same answers as with the mean in both places.
  std::vector<float> mean = middle.statistics();
  for (std::size_t i = 0; i < 32; ++i) mean[i] = mean[i + 32] = mean[i] / 2 + mean[i + 32] / 2;
  const double loss = scored.test({0, 10}).loss_sum;
  middle.set_statistics(mean);
  EXPECT_EQ(scored.test({0, 10}).loss_sum, loss);
  const auto whole = drawn(make);
  join_parts(*whole, silent.schedule(), silent.counts(), silent.models());
  const std::vector<float> buffers = whole->numbers().buffers;
  EXPECT_EQ(std::vector<float>(buffers.begin() + 32, buffers.begin() + 64),
            std::vector<float>(mean.begin(), mean.begin() + 32));
}

TEST(StagedLearner, GoesOnFromACheckpoint) {
  const Experiment experiment = staged_experiment(kBatch);
  const MakeNetwork make = network_named("unet", kAll);
  const Folder folder;
  StagedPipeline first(experiment, "gems", 3, make), second(experiment, "gems", 3, make);
  Named before, found, expected;
  first.train(0, before);
  run_loopback(3, [&](Rank& rank) {
    std::vector<Blob> blobs = first.learner(rank.rank()).state();
    const Bytes weights = first.learner(rank.rank()).replica().weights().bytes();
    blobs.push_back({"weights", {weights.data, weights.size}});
    const auto saved = save_checkpoint(rank.peers, folder / "step-1", {{"step", 1}}, blobs);
    EXPECT_EQ(saved.failure, "");
  });
  const Checkpoint checkpoint(folder / "step-1");
  for (int worker = 0; worker < 3; ++worker) {
    checkpoint.read(worker, "weights", second.learner(worker).replica().weights().bytes());
    second.learner(worker).restore(checkpoint, worker);
  }
  EXPECT_EQ(first.train(1, expected), second.train(1, found));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(first.weights(), second.weights());
  for (int worker = 0; worker < 3; ++worker)
    EXPECT_EQ(first.models()[worker].statistics, second.models()[worker].statistics);
}

TEST(StagedLearner, SaysWhyANetworkCantBeCut) {
  const Experiment experiment = staged_experiment(kBatch);
  const auto why = [&](const MakeNetwork& make, const BlockCounts& counts) -> std::string {
    try {
      StagedPipeline(experiment, "plain", static_cast<int>(counts.size()), make, counts);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "no reason";
  };
  const MakeNetwork dense = [] { return network_of(torch::nn::Linear(2, 2)); };
  EXPECT_THAT(why(dense, {1}), ::testing::HasSubstr("not a list of blocks"));
  EXPECT_THAT(why(network_named("unet", {}), {3, 4}), ::testing::HasSubstr("3,4"));
  EXPECT_THAT(why(network_named("unet", {}), {6, 0}), ::testing::HasSubstr("the network has 6"));
  const MakeNetwork nameless = [] {
    auto network = std::make_unique<BlockNetwork>();
    torch::nn::Linear layer(2, 2);
    network->add({"head", {"nothing"}, {}, {}, {}, {}}, layer.ptr());
    return network;
  };
  EXPECT_THAT(why(nameless, {1}), ::testing::HasSubstr("'head' takes 'nothing'"));
}

}  // namespace
}  // namespace lockstep::testing
