// Scores of runs whose workers go apart, where they take long or can't be taken.
#include "train/score_lane.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <sstream>

#include "train/apart_runs.h"
#include "transport/decorators/decorator.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr Tag kNothing{Purpose::control, 0x3ff};  // is never sent

// Jobs of scores, on a lane that is changed.
template <class Lane>
class ScoringOver final : public Background {
 public:
  ScoringOver(Background& inner, double number) : inner_(inner), number_(number) {}
  std::uint64_t post(Job job) override {
    return inner_.post([number = number_, job = std::move(job)](Transport& below) {
      Lane lane(below, number);
      job(lane);
    });
  }
  void wait(std::uint64_t number) override { inner_.wait(number); }
  void ring() override { inner_.ring(); }

 private:
  Background& inner_;
  const double number_;
};

// Whatever is sent on it leaves that much later.
class Late final : public Decorator {
 public:
  Late(Transport& below, double seconds) : Decorator(below), seconds_(seconds) {}
  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    std::byte none{};
    Pending nothing = inner_.recv(to, kNothing, {&none, 1});
    if (seconds_ > 0) inner_.ending(nothing, {inner_.now() + seconds_});
    return inner_.post_send(to, tag, bytes);
  }

 private:
  const double seconds_;
};

struct Ended {
  TrainResult result;
  double at_s = 0;  // when its leader had done
};

// `around`: changes what a rank sees.
Ended simulated(TrainConfig config, const WorkerOptions& options,
                const std::function<void(Rank&, const std::function<void(Rank&)>&)>& around,
                double patience_s = 0) {
  complete(config);
  check(config);
  Experiment experiment(config, {});
  if (patience_s > 0) experiment.simulation->cluster.patience_s = patience_s;
  Ended ended;
  run_simulated(experiment.simulation->cluster, [&](Rank& outer) {
    around(outer, [&](Rank& inner) {
      WorkerOutcome mine = train(inner, experiment, options);
      if (mine.leads) ended = {std::move(mine.result), inner.clock.now()};
    });
  });
  return ended;
}

template <class Lane>
auto scoring_over(double number) {
  return [number](Rank& outer, const std::function<void(Rank&)>& go) {
    ScoringOver<Lane> scoring(*outer.scoring, number);
    Rank inner{outer.peers, outer.clock, outer.background, outer.lock, outer.seed, &scoring};
    go(inner);
  };
}

void as_it_is(Rank& rank, const std::function<void(Rank&)>& go) { go(rank); }

std::string steps_of(const TrainResult& result) {
  std::vector<std::uint64_t> steps;
  for (const Score& score : result.scores) steps.push_back(score.steps);
  return fmt::format("{}", fmt::join(steps, " "));
}

class ApartModels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, ApartModels, ::testing::ValuesIn(strategies_that_go_apart()),
                         test_name);

// The pacemaker comes to its 20th step, where all are to meet, before its time is over; the time of
// a slow worker is over when it has taken ten. However late the copies of earlier scores are, the
// run ends with the same model, and with one score of it. (But for hogwild, whose workers write the
// same memory at the same instant.)
TEST_P(ApartModels, AreWrittenHoweverLateScoresAre) {
  TrainConfig config = config_of(GetParam());
  if (GetParam() == "ssp") config.strategy = "ssp:staleness=50";
  config.cluster = cluster_of(GetParam(), "step=10ms,latency=100us,slow=rank1:3.0");
  config.seconds = 0.3;
  config.checkpoint_every = 20;
  config.evaluate_every = 10;
  config.audit = GetParam() != "hogwild";
  std::string first;
  for (const double late_s : {0.0, 0.001, 0.006, 0.008, 0.01, 0.012, 0.014, 0.02, 0.1}) {
    const std::string text = in_a_process([&] {
      const TestFolder out;
      const RunFolder folder(out.path());
      WorkerOptions options;
      options.folder = &folder;
      const TrainResult result = simulated(config, options, scoring_over<Late>(late_s)).result;
      return fmt::format("{}, {} bytes, scores {}", result.model_sha256,
                         std::filesystem::file_size(folder.model()), steps_of(result));
    });
    if (first.empty()) first = text;
    EXPECT_THAT(text, EndsWith(", scores 5 10 15 20"));
    EXPECT_EQ(text.size(), first.size()) << late_s << " s late";
    if (GetParam() != "hogwild") {
      EXPECT_EQ(text, first) << late_s << " s late";
    }
  }
  EXPECT_GT(first.size(), 64u);
}

// Says when the model was there.
struct Waiting final : Watcher {
  explicit Waiting(std::string path) : model(std::move(path)) {}
  void notice(const std::string& text) override { notices.push_back(text); }
  void step(const Progress&) override {}
  void score(const Score&, int) override {
    had_model.push_back(std::filesystem::exists(model) ? 1 : 0);
  }
  const std::string model;
  std::vector<int> had_model;  // by score
  std::vector<std::string> notices;
};

TEST_P(ApartModels, AreWrittenBeforeScoresThatAreLate) {
  TrainConfig config = config_of(GetParam());
  config.cluster = cluster_of(GetParam(), "step=10ms");
  // What a score says of the training losses is about those since the one before it.
  const std::string prompt = in_a_process([&] {
    std::string losses;
    for (const Score& score : train_in("simulated", config).result.scores)
      losses += fmt::format("{:.6f} ", score.train_loss);
    return losses;
  });
  const TestFolder out;
  const RunFolder folder(out.path());
  Waiting watcher(folder.model());
  WorkerOptions options;
  options.folder = &folder;
  options.watcher = &watcher;
  const TrainResult result = simulated(config, options, scoring_over<Late>(1)).result;
  EXPECT_EQ(steps_of(result), "5 10 15");
  EXPECT_THAT(watcher.had_model, ElementsAre(1, 1, 1));
  std::istringstream in(prompt);
  for (const Score& score : result.scores) {
    double loss = 0;
    in >> loss;
    EXPECT_NEAR(score.train_loss, loss, 0.15 * loss);
  }
}

// Hears of what others have done before its own first step.
class LateStarter final : public Decorator {
 public:
  LateStarter(Transport& inner, Clock& clock) : Decorator(inner), clock_(clock) {}
  std::optional<Arrival> probe(int from, Tag tag) override {
    if (!std::exchange(has_begun_, true)) clock_.charge(1);
    return inner_.probe(from, tag);
  }

 private:
  Clock& clock_;
  bool has_begun_ = false;
};

TEST_P(ApartModels, AreWrittenWhereThePacemakerTookNoStep) {
  TrainConfig config = config_of(GetParam(), 2);
  config.cluster = cluster_of(GetParam(), "step=10ms");
  config.samples = 20;
  const TrainResult result =
      simulated(config, {}, [](Rank& outer, const auto& go) {
        LateStarter peers(outer.peers, outer.clock);
        Rank inner{peers, outer.clock, outer.background, outer.lock, outer.seed, outer.scoring};
        go(outer.rank() == 0 ? inner : outer);
      }).result;
  EXPECT_THAT(result.model_sha256, SizeIs(64));
  EXPECT_EQ(steps_of(result), "0");
  EXPECT_GE(result.samples, 20u);
}

// Of two workers that never push of their own accord one comes to a meeting, and the other's time
// is over before.
TEST(ApartEnds, DownpourPushesWhatIsLeftOfThoseThatRestedToo) {
  TrainConfig config = config_of("downpour:push=1000,fetch=1000", 2);
  config.cluster = "sim:step=10ms,slow=rank1:3.0";
  config.seconds = 0.3;
  config.checkpoint_every = 20;
  config.audit = true;
  const TestFolder out;
  const RunFolder folder(out.path());
  WorkerOptions options;
  options.folder = &folder;
  const TrainResult result = train_in("simulated", config, options).result;
  EXPECT_EQ(result.ranks.at(0)["steps"], 20);
  EXPECT_LT(result.ranks.at(1)["steps"], 20);
  EXPECT_EQ(result.ranks.at(2)["contributions"]["count"], 2);
}

// The others wait for the slow one, which sets the pace, in every 64th step, and have no copy for
// it before.
TEST(ApartScores, HoldNobodyUpWhereCopiesAreLate) {
  TrainConfig config = config_of("easgd:mode=sync,period=64");
  config.cluster = "sim:step=10ms,slow=rank0:3.0";
  config.steps = 128;
  config.epochs = 0;
  config.evaluate_every = 1;
  const Ended ended = simulated(config, {}, as_it_is);
  EXPECT_LT(ended.at_s, 128 * 0.03 + 1);
  EXPECT_THAT(ended.result.scores, SizeIs(128));
}

// Copies of 6.5 MB.
TEST(ApartScores, AreLeftOutWhereTooManyCopiesWait) {
  TrainConfig config = config_of("gossip", 2);
  config.model = "mlp:width=2048,depth=1";
  config.cluster = "sim:step=10ms,slow=rank1:100";
  config.steps = 40;
  config.epochs = 0;
  config.evaluate_every = 1;
  Waiting watcher("");
  WorkerOptions options;
  options.watcher = &watcher;
  const TrainResult result = simulated(config, options, as_it_is).result;
  EXPECT_LT(result.scores.size(), 30u);
  EXPECT_GT(result.scores.size(), 5u);
  EXPECT_EQ(result.scores.back().steps, 40u);
  ASSERT_THAT(watcher.notices, SizeIs(1));
  EXPECT_THAT(watcher.notices[0],
              StartsWith(fmt::format("{} scores were left out", 40 - result.scores.size())));
}

// Notes when rank 0 takes its steps.
struct Timed final : Watcher {
  void notice(const std::string&) override {}
  void step(const Progress&) override { last_s = clock->now(); }
  void score(const Score&, int) override {}
  const Clock* clock = nullptr;
  double last_s = 0;
};

// The pacemaker does not wait for what it sends to have scores taken.
TEST(ApartScores, TakeNoTimeOfTheTrainingInSimulation) {
  TrainConfig config = config_of("gossip");
  config.cluster = "sim:step=10ms,latency=5ms";
  const auto trained_s = [&] {
    return std::stod(in_a_process([&] {
      Timed watcher;
      WorkerOptions options;
      options.watcher = &watcher;
      simulated(config, options, [&](Rank& rank, const auto& go) {
        if (rank.rank() == 0) watcher.clock = &rank.clock;
        go(rank);
      });
      return std::to_string(watcher.last_s);
    }));
  };
  config.steps = 60;
  config.epochs = 0;
  const double seldom_s = trained_s();
  config.evaluate_every = 1;
  EXPECT_NEAR(trained_s(), seldom_s, 1e-3);
}

// What that rank sends of its weights never leaves.
class Stuck final : public Decorator {
 public:
  Stuck(Transport& below, double rank) : Decorator(below), is_stuck_(below.rank() == rank) {}
  Request post_send(int to, Tag tag, ConstBytes bytes) override {
    constexpr std::uint32_t kWeights = 0x113;
    if (!is_stuck_ || tag.number != kWeights) return inner_.post_send(to, tag, bytes);
    return inner_.post_recv(to, kNothing, {&none_, 1}, nullptr);
  }

 private:
  const bool is_stuck_;
  std::byte none_{};
};

// The scorer waits for it as long as its patience lasts, and goes on without it.
TEST(ApartScores, OfACopyThatIsStuckHoldNobodyUp) {
  TrainConfig config = config_of("gossip", 3);
  config.cluster = "sim:step=10ms";
  const Ended ended = simulated(config, {}, scoring_over<Stuck>(1), 2);
  EXPECT_LT(ended.at_s, 10);
  EXPECT_THAT(ended.result.model_sha256, SizeIs(64));
  EXPECT_THAT(ended.result.scores, SizeIs(3));
}

}  // namespace
}  // namespace lockstep::testing
