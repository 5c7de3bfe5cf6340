// A network that is cut over several ranks, through the interfaces that whole networks use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/all_reduce.h"
#include "measure/metered.h"
#include "parallel/forecast.h"
#include "parallel/schedules.h"
#include "strategies/audit/audit.h"
#include "strategies/registry.h"
#include "toy_stages.h"
#include "train/pipeline_parts.h"
#include "transport/rank_group.h"
#include "worlds.h"

namespace lockstep::testing {
namespace {

constexpr std::uint64_t kSteps = 5;
constexpr Slice kTestSet{0, 6};

// A layer each, or more for the first stages.
Pipelines pipelines_of(const PipelineSchedule& schedule, int layers, int count = 1) {
  Pipelines pipelines{schedule, count, BlockCounts(schedule.stages, layers / schedule.stages)};
  for (int i = 0; i < layers % schedule.stages; ++i) ++pipelines.cut[i];
  return pipelines;
}
Pipelines pipelines_of(const std::string& spec, int workers, int layers, int count = 1) {
  return pipelines_of(pipeline_schedule(spec, workers), layers, count);
}

struct Ended {
  Floats weights;
  std::vector<double> losses;  // of the steps, then of the test set
};

// `exchange`: what comes between backward and the next step.
Ended train_part(ToyStages& learner, Carrier* carrier,
                 const std::function<void(std::uint64_t step)>& exchange) {
  Ended ended;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    learner.open_step(step);
    ended.losses.push_back(compute(learner, carrier));
    exchange(step);
  }
  ended.losses.push_back(tally_of(learner, kTestSet, carrier).loss_sum);
  const std::span<const float> weights = learner.toy_replica().weight_span();
  ended.weights.assign(weights.begin(), weights.end());
  return ended;
}

Ended train_alone(ToyStages& learner, Carrier* carrier = nullptr) {
  return train_part(learner, carrier,
                    [&](std::uint64_t step) { learner.replica().apply_gradients(step); });
}

Floats part_of(const Floats& whole, Slice part) {
  return {whole.begin() + static_cast<std::ptrdiff_t>(part.begin),
          whole.begin() + static_cast<std::ptrdiff_t>(part.end())};
}

FabricOptions with_lanes() {
  FabricOptions options;
  options.patience_seconds = 60;
  options.lanes.background = 2;
  return options;
}

class Stages : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Every, Stages, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Stages, TwoComeToTheBitsOfTheWhole) {
  const ToyNetwork network{2, {}};
  const Pipelines one = pipelines_of("gpipe:microbatches=3,recompute=off", 1, 2);
  const Pipelines two = pipelines_of("gpipe:microbatches=3,recompute=off", 2, 2);
  ToyStages whole(network, one, 0, 6);
  const Ended expected = train_alone(whole);
  EXPECT_LT(expected.losses[kSteps - 1], expected.losses[0]) << "it learns";
  GetParam().run(
      2,
      [&](Rank& rank) {
        ToyStages stage(network, two, rank.rank(), 6);
        Carrier carrier(rank);
        const Ended ended = train_alone(stage, &carrier);
        EXPECT_EQ(ended.weights, part_of(expected.weights, whole.place_of(rank.rank())));
        EXPECT_EQ(ended.losses,
                  rank.rank() == 1 ? expected.losses : std::vector<double>(kSteps + 1));
      },
      with_lanes());
}

// A strategy sees the ranks that hold the same stages, and runs unchanged among them.
TEST_P(Stages, TwoReplicasOfTwoKeepInStep) {
  const ToyNetwork network{2, {}};
  const std::size_t samples[] = {6, 6};
  const auto train_among = [&](ToyStages& learner, Rank& equals, Carrier* carrier) {
    const auto strategy =
        make_strategy("all-reduce", {equals, 2, 0, false, all_reduce_named("ring")});
    strategy->begin(learner.replica());
    return train_part(learner, carrier, [&](std::uint64_t step) {
      strategy->update(learner.replica(), {step, 0, samples});
    });
  };
  const Pipelines one = pipelines_of("1f1b:microbatches=3", 1, 2, 2);
  const Pipelines two = pipelines_of("1f1b:microbatches=3", 2, 2, 2);
  Ended expected;
  run_loopback(2, [&](Rank& rank) {
    ToyStages whole(network, one, 0, 6, rank.rank());
    const Ended ended = train_among(whole, rank, nullptr);
    if (rank.rank() == 0) expected = ended;
  });
  GetParam().run(
      4,
      [&](Rank& rank) {
        const int r = rank.rank(), number = two.pipeline_of(r);
        RankGroup line(rank, two.ranks_of(number), r, 1);
        RankGroup equals(rank, two.equals_of(r), r);
        ToyStages learner(network, two, two.worker_of(r), 6, number);
        Carrier carrier(line.rank());
        const Ended ended = train_among(learner, equals.rank(), &carrier);
        const int stage = two.stages_of(r).front();
        EXPECT_EQ(ended.weights, part_of(expected.weights, {9ul * stage, 9}));
        if (number == 0 && stage == 1) {
          EXPECT_EQ(ended.losses, expected.losses);
        }
      },
      with_lanes());
}

// What the workers of one pipeline came to in a step: gradients by rank, and what they sent.
struct OneStep {
  std::vector<Floats> gradients;
  std::vector<double> losses;
  std::vector<Traffic> sent;
};

// One step of a pipeline on the first ranks of the job. The others look on.
void step_of(Rank& rank, const ToyNetwork& network, const Pipelines& pipelines, std::size_t samples,
             OneStep& all, ToyBug bug = ToyBug::none) {
  const int r = rank.rank();
  if (r >= pipelines.schedule.workers) return;
  RankGroup line(rank, pipelines.ranks_of(0), r, 1);
  MeteredRank metered(line.rank());
  ToyStages learner(network, pipelines, r, samples, 0, bug);
  Carrier carrier(metered.rank());
  learner.open_step(3);
  all.losses[r] = compute(learner, &carrier);
  const std::span<const float> gradients = learner.toy_replica().gradient_span();
  all.gradients[r].assign(gradients.begin(), gradients.end());
  all.sent[r] = metered.passed();
}

// The largest difference from one worker's gradients, over the largest of them.
double distance_from_one(const ToyNetwork& network, const Pipelines& pipelines, std::size_t samples,
                         const OneStep& all) {
  Pipelines one = pipelines_of("plain", 1, network.layers);
  ToyStages whole(network, one, 0, samples);
  whole.open_step(3);
  const double loss = compute(whole);
  double most = 0, apart = 0, losses = 0;
  for (const double part : all.losses) losses += part;
  std::vector<ToyStages> workers;
  workers.reserve(pipelines.schedule.workers);
  for (int w = 0; w < pipelines.schedule.workers; ++w)
    workers.emplace_back(network, pipelines, w, samples);
  const std::span<const float> expected = whole.toy_replica().gradient_span();
  for (int layer = 0, stage = 0, in_stage = 0; layer < network.layers; ++layer) {
    std::vector<int> holders;
    for (int w = 0; w < pipelines.schedule.workers; ++w)
      for (const int held : pipelines.stages_of(w))
        if (held == stage) holders.push_back(w);
    for (std::size_t i = 0; i < network.weights_of_layer(); ++i) {
      double mean = 0;
      for (const int w : holders)
        mean += all.gradients[w][workers[w].place_of(layer).begin + i] /
                static_cast<double>(holders.size());
      const double right = expected[whole.place_of(layer).begin + i];
      most = std::max(most, std::abs(right));
      apart = std::max(apart, std::abs(mean - right));
    }
    if (++in_stage == pipelines.cut[stage]) ++stage, in_stage = 0;
  }
  return std::max(apart / most, std::abs(losses - loss) / loss);
}

// Skips over a stage, over several, within one, and two from one layer.
ToyNetwork with_skips(int layers, std::size_t width = 3) {
  ToyNetwork network{layers, {}, width};
  for (const ToySkip skip : {ToySkip{0, layers - 1}, {1, 3}, {0, 2}, {2, 5}})
    if (skip.from < skip.to && skip.to < layers) network.skips.push_back(skip);
  return network;
}

std::uint64_t bytes_of_micros(const ToyNetwork& network, std::size_t samples) {
  return samples * network.width * sizeof(float);
}

// Messages and bytes of a step, as the forecast has them.
void expect_traffic(const std::string& what, const ToyNetwork& network, const Pipelines& pipelines,
                    std::size_t samples, const OneStep& all) {
  const ToyStages any(network, pipelines, 0, samples);
  std::vector<StageLink> links;
  for (const ToyStages::Link& link : any.links())
    links.push_back({link.from_stage, link.to_stage, 0, bytes_of_micros(network, samples)});
  const std::vector<PassTimes> times(pipelines.schedule.stages, PassTimes{1, 1, 1});
  std::uint64_t messages = 0, bytes = 0, sent = 0, sent_bytes = 0;
  for (const LinkTraffic& link : forecast(pipelines.schedule, times, links).traffic) {
    messages += link.messages;
    // All micro-batches of a replica together are its part of the samples.
    bytes += link.messages > 0 ? 2 * bytes_of_micros(network, samples) : 0;
  }
  for (const Traffic& one : all.sent) sent += one.messages_sent, sent_bytes += one.bytes_sent;
  EXPECT_EQ(sent, messages) << what;
  EXPECT_EQ(sent_bytes, bytes) << what;
}

constexpr int kMostWorkers = 8;

void run_in(const std::string& world, const Body& body) {
  for (const World& one : worlds())
    if (one.name == world) one.run(kMostWorkers, body, with_lanes());
}

class Schedules : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, Schedules, ::testing::Values("loopback", "simulated"),
                         [](const auto& info) { return info.param; });

// Every schedule x 1..8 workers x 1..16 micro-batches, with a ragged last one.
TEST_P(Schedules, RunToTheirEndWithOneWorkersGradients) {
  struct Case {
    std::string what;
    ToyNetwork network;
    Pipelines pipelines;
    std::size_t samples;
    OneStep step;
  };
  std::vector<Case> cases;
  for_all_schedules([&](const std::string& what, const PipelineSchedule& schedule) {
    const int layers = std::max(schedule.stages, 2);
    const std::size_t samples = 3ul * schedule.replicas * schedule.micros - 1;
    cases.push_back({what,
                     with_skips(layers),
                     pipelines_of(schedule, layers),
                     samples,
                     {std::vector<Floats>(kMostWorkers), std::vector<double>(kMostWorkers),
                      std::vector<Traffic>(kMostWorkers)}});
  });
  run_in(GetParam(), [&](Rank& rank) {
    for (Case& one : cases) step_of(rank, one.network, one.pipelines, one.samples, one.step);
  });
  for (const Case& one : cases) {
    EXPECT_LT(distance_from_one(one.network, one.pipelines, one.samples, one.step), 1e-4)
        << one.what;
    expect_traffic(one.what, one.network, one.pipelines, one.samples, one.step);
  }
}

// So long that they move only while both ends are inside calls on their lane.
TEST_P(Schedules, RunToTheirEndWithLongMessages) {
  const ToyNetwork network = with_skips(8, 8);
  constexpr std::size_t kSamples = 8 * 4 * 600;  // 75 KB a message and more
  static_assert(kSamples / 8 * 8 * sizeof(float) > kEagerBytes);
  std::vector<Pipelines> cases;
  for (const char* spec :
       {"gpipe:microbatches=8", "1f1b:microbatches=8", "1f1b:folded=on,microbatches=8",
        "interleaved:microbatches=8", "zb-h1:microbatches=8", "gems:times=2,microbatches=2"})
    cases.push_back(pipelines_of(spec, 4, 8));
  std::vector<OneStep> steps(cases.size(),
                             {std::vector<Floats>(kMostWorkers), std::vector<double>(kMostWorkers),
                              std::vector<Traffic>(kMostWorkers)});
  run_in(GetParam(), [&](Rank& rank) {
    for (std::size_t i = 0; i < cases.size(); ++i)
      step_of(rank, network, cases[i], kSamples, steps[i]);
  });
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_LT(distance_from_one(network, cases[i], kSamples, steps[i]), 1e-3) << i;
}

TEST(StageBugs, AreSeenInTheGradients) {
  const ToyNetwork network = with_skips(4);
  const Pipelines pipelines = pipelines_of("1f1b:microbatches=4", 4, 4);
  for (const auto& [bug, least, most] : {std::tuple(ToyBug::none, 0.0, 1e-4),
                                         {ToyBug::drops_skip_gradient, 1e-2, 1e3},
                                         {ToyBug::counts_first_micro_twice, 1e-2, 1e3}}) {
    OneStep step{std::vector<Floats>(4), std::vector<double>(4), std::vector<Traffic>(4)};
    run_loopback(
        4, [&, bug = bug](Rank& rank) { step_of(rank, network, pipelines, 16, step, bug); },
        with_lanes());
    const double apart = distance_from_one(network, pipelines, 16, step);
    EXPECT_GE(apart, least);
    EXPECT_LT(apart, most);
  }
}

// Stages that are averaged with others would go unseen by what proves the average itself.
TEST(StageBugs, AWrongGroupIsFoundByTheAudit) {
  const ToyNetwork network{2, {}};
  const Pipelines two = pipelines_of("1f1b:microbatches=2", 2, 2, 2);
  const auto prove_among = [&](const std::function<std::vector<int>(int rank)>& group) {
    run_loopback(4, [&](Rank& rank) {
      ToyStages learner(network, two, two.worker_of(rank.rank()), 4);
      Group equals(rank.peers, group(rank.rank()));
      prove_equal_parts(equals, learner.replica());
    });
  };
  EXPECT_NO_THROW(prove_among([&](int rank) { return two.equals_of(rank); }));
  EXPECT_THROW(prove_among([](int rank) {
                 return rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
               }),
               AuditError);
}

TEST(Stage, TellsEachPartOfTheGradientsOnceWhenItIsFinal) {
  const Pipelines one = pipelines_of("gpipe:microbatches=3,recompute=off", 1, 2);
  ToyStages whole({2, {}}, one, 0, 6);
  std::vector<Slice> told;
  bool last_backward = false;
  whole.on_slice_ready([&](Slice part) {
    EXPECT_TRUE(last_backward);
    told.push_back(part);
  });
  whole.open_step(0);
  int backwards = 0;
  compute(whole, nullptr, [&](const Action& action) {
    backwards += action.pass == StagePass::backward;
    last_backward = backwards == 2;
  });
  EXPECT_EQ(told, (std::vector<Slice>{{9, 9}, {0, 9}}));
}

// The others name the stage that is gone, whoever their neighbours are.
TEST(Stage, ThatIsKilledIsNamedByTheOthers) {
  const ToyNetwork network{4, {}};
  const Pipelines pipelines = pipelines_of("1f1b:microbatches=4", 4, 4);
  SimulatedCluster cluster;
  cluster.ranks = 4;
  cluster.lanes.background = 2;
  cluster.deaths = {{2, 0.5}};
  std::vector<int> named(4, -1);
  try {
    run_simulated(cluster, [&](Rank& rank) {
      RankGroup line(rank, pipelines.ranks_of(0), rank.rank(), 1);
      ToyStages learner(network, pipelines, rank.rank(), 8);
      Carrier carrier(line.rank());
      try {
        for (std::uint64_t step = 0; step < 100; ++step) {
          learner.open_step(step);
          compute(learner, &carrier, [&](const Action&) { rank.clock.charge(0.01); });
        }
      } catch (const TransportError& e) {
        named[rank.rank()] = e.peer();
        throw;
      }
    });
    FAIL() << "nobody missed it";
  } catch (const TransportError& e) {
    EXPECT_EQ(e.peer(), 2);
  }
  EXPECT_EQ(named[1], 2);
  EXPECT_EQ(named[3], 2);
  EXPECT_NE(named[0], -1);
}

}  // namespace
}  // namespace lockstep::testing
