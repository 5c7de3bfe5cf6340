// Parts of the gradients reach a strategy while backward runs, and in simulation when it would.
#include <gmock/gmock.h>

#include "core/whole_file.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

struct Event {
  std::string what;
  double at_s = 0;
  Slice part = {};
};
// Of rank 0, in order. A row's maker is a plain function, and so has nowhere else to write.
std::vector<Event> events;
bool makes_use = true, spoils_weights = false;

class Listener final : public Strategy, public Fed {
 public:
  explicit Listener(const Crew& crew) : Strategy(crew, {.fed = this}) {}
  void expect(Replica&, const Step&) override { note("expect"); }
  void ready(Slice part) override { note("ready", part); }
  bool begins_early() const override { return makes_use; }
  void update(Replica& replica, const Step& step) override {
    note("update");
    replica.apply_gradients(step.number);
    if (spoils_weights) scale(replica.weights(), std::numeric_limits<double>::quiet_NaN());
  }

 private:
  void note(const char* what, Slice part = {}) {
    if (crew_.rank.rank() == 0) events.push_back({what, crew_.rank.clock.now(), part});
  }
};

constexpr StrategyRow kListener{
    .name = "listener", .maker = [](const Options&) -> StrategyMaker {
      return {[](const Crew& crew) { return std::make_unique<Listener>(crew); }};
    }};

TrainConfig listening(const std::string& cluster = "local") {
  events.clear();
  makes_use = true;
  spoils_weights = false;
  TrainConfig config = small_config();
  config.strategy = "listener";
  config.own_strategy = &kListener;
  config.workers = 1;
  config.steps = 3;
  config.cluster = cluster;
  return config;
}

// The events of each step, which begins with "expect" and ends with "update".
std::vector<std::vector<Event>> steps() {
  std::vector<std::vector<Event>> all;
  for (const Event& event : events) {
    if (event.what == "expect") all.emplace_back();
    all.back().push_back(event);
  }
  return all;
}

std::size_t parameters() {
  TrainConfig config = listening("sim:step=1s,numerics=off");
  return Experiment(config, {}).hollow_parameters();
}

class FedIn : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, FedIn, ::testing::ValuesIn(worlds_of_training()),
                         [](const auto& info) { return info.param; });

TEST_P(FedIn, IsToldEachPartOnceBetweenExpectAndUpdate) {
  const std::size_t all = parameters();
  train_in(GetParam(), listening());
  ASSERT_EQ(steps().size(), 3u);
  for (const std::vector<Event>& step : steps()) {
    EXPECT_EQ(step.back().what, "update");
    std::vector<bool> told(all);
    for (const Event& event : step)
      for (std::size_t i = event.part.begin; i < event.part.end(); ++i) {
        EXPECT_FALSE(told.at(i));
        told[i] = true;
      }
    EXPECT_EQ(std::ranges::count(told, true), std::ssize(told));
    EXPECT_GT(step.size(), 3u) << "part by part";
  }
}

// Forward takes a third, and backward as long for each parameter: so a part is ready when it and
// all that were told before it have been computed. Then time has come to the whole step.
class FedWith : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(And, FedWith, ::testing::Values("on", "off"),
                         [](const auto& info) { return "numerics_" + info.param; });

TEST_P(FedWith, PartsAreReadyInProportionWithoutAProfile) {
  const std::size_t all = parameters();
  train_in("simulated", listening("sim:step=90ms,numerics=" + GetParam()));
  ASSERT_EQ(steps().size(), 3u);
  for (const std::vector<Event>& step : steps()) {
    const double start = step.front().at_s;
    std::size_t told = 0;
    for (const Event& event : step) {
      if (event.what != "ready") continue;
      told += event.part.count;
      const double share = static_cast<double>(told) / static_cast<double>(all);
      EXPECT_NEAR(event.at_s - start, 0.03 + 0.06 * share, 1e-9);
    }
    EXPECT_EQ(told, all);
    EXPECT_NEAR(step.back().at_s - start, 0.09, 1e-9);
  }
}

TEST(Fed, PartsAreReadyWhenTheProfileSays) {
  const Folder folder;
  TrainConfig config = listening();
  config.profile_out = "asked for";
  Profile profile = train_in("loopback", config).profile;
  ASSERT_FALSE(profile.ready.empty());
  std::size_t covered = 0;
  for (const SliceTime& one : profile.ready) {
    covered += one.part.count;
    EXPECT_GE(one.ready_s, 0);
  }
  EXPECT_EQ(covered, parameters());
  profile.forward_s = 0.02;
  profile.backward_s = 0.04;
  profile.apply_s = 0.01;
  for (std::size_t i = 0; i < profile.ready.size(); ++i)
    profile.ready[i].ready_s = 0.04 / static_cast<double>(1 << i);  // so in another order
  const std::string path = folder / "profile.json";
  write_whole(path, to_json(profile).dump());
  train_in("simulated", listening("sim:numerics=off,profile=" + path));
  ASSERT_EQ(steps().size(), 3u);
  const std::vector<Event> step = steps()[1];
  const double start = step.front().at_s;
  ASSERT_EQ(step.size(), profile.ready.size() + 2);
  for (std::size_t i = 0; i < profile.ready.size(); ++i) {
    const SliceTime& due = profile.ready[profile.ready.size() - 1 - i];
    EXPECT_EQ(step[i + 1].part, due.part);
    EXPECT_NEAR(step[i + 1].at_s - start, 0.02 + due.ready_s, 1e-9);
  }
  EXPECT_NEAR(step.back().at_s - start, 0.07, 1e-9);
}

// Neither are those that could be and make no use of it: time passes in one piece for both.
// Nobody sends or steps with what comes of a loss that is no number.
TEST(Fed, IsToldNothingWhereTheLossIsNotFinite) {
  const TrainConfig config = listening();
  spoils_weights = true;
  EXPECT_THROW(train_in("loopback", config), BadGradient);
  ASSERT_EQ(steps().size(), 2u);
  EXPECT_GT(steps()[0].size(), 2u);
  EXPECT_EQ(steps()[1].size(), 1u) << "expect alone";
}

TEST(Fed, IsNotFedInVain) {
  TrainConfig config = listening("sim:step=90ms");
  makes_use = false;
  train_in("simulated", config);
  ASSERT_EQ(events.size(), 3u);
  for (const Event& event : events) EXPECT_EQ(event.what, "update");
}

}  // namespace
}  // namespace lockstep::testing
