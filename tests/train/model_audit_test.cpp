// The model that is scored and saved is proved to be what it should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/evaluate.h"
#include "train/runs.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Floats = std::vector<float>;

// One whose network takes what it is given, unless it is told not to.
class ToyLearner final : public Learner, private Replica {
 public:
  bool keeps_weights = false, keeps_statistics = false;
  bool spoils_weights = false, spoils_statistics = false;  // in the file alone
  // The network computes in memory of its own, which nothing that is written to the replica
  // reaches.
  bool came_apart = false;

  Replica& replica() override { return *this; }
  void open_step(std::uint64_t) override {}
  void open_task_batch(std::size_t, std::uint64_t) override {}
  void open_test(Slice) override {}
  std::vector<Action> actions() const override { return {}; }
  std::vector<Passage> run(const Action&) override { return {}; }
  double end_step() override { return 0; }
  Tally end_test() override {
    restore_if_it_keeps();
    return {Floats64(10, 1), Floats64(10, 1), Floats64(10, 1), 1};
  }
  const Times& last() const override { return times_; }
  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override {}
  Floats statistics() override { return statistics_; }
  void set_statistics(const Floats& statistics) override {
    if (!keeps_statistics) statistics_ = statistics;
  }
  void save_model(const std::string&) override {
    restore_if_it_keeps();
    written_ = {weights_, statistics_};
    if (spoils_weights) written_.weights.back() = 7;
    if (spoils_statistics) written_.statistics.pop_back();
  }
  Model held_by_network() override {
    return {came_apart ? Floats(weights_.size(), 1) : weights_, statistics_};
  }
  Model read_model(const std::string&) override { return written_; }
  std::vector<Blob> state() override { return {}; }
  void restore(const Checkpoint&, int) override {}

 private:
  using Floats64 = std::vector<double>;
  Values weights() override { return {weights_.data(), weights_.size(), Type::fp32}; }
  Values gradients() override { return weights(); }
  void apply_gradients(std::uint64_t, Slice, std::uint64_t, double) override {}
  double learning_rate(std::uint64_t) const override { return 0; }
  void forget() override {}
  std::span<const Parameter> parameters() const override { return {}; }
  void restore_if_it_keeps() {
    if (keeps_weights) std::ranges::fill(weights_, 1.0f);
  }

  const Times times_;
  Floats weights_ = Floats(100, 1), statistics_ = {1, 2, 3};
  Model written_;
};

void expect_found(const std::function<void()>& act, const std::string& what) {
  EXPECT_THAT(act, ThrowsMessage<AuditError>(HasSubstr(what)));
}

const Model kModel{Floats(100, 2), {4, 5, 6}};

TEST(ModelAudit, FindsAModelThatIsNotTheOneThatIsSaved) {
  ToyLearner learner;
  EXPECT_NO_THROW(save_model(learner, kModel, "somewhere", true));
  learner.keeps_statistics = true;
  expect_found([&] { save_model(learner, kModel, "somewhere", true); },
               "the statistics of batch norm that were saved are not the model's");
  learner.keeps_weights = true;
  expect_found([&] { save_model(learner, kModel, "somewhere", true); },
               "the weights that were saved are not the model's");
  EXPECT_NO_THROW(save_model(learner, kModel, "somewhere", false));
}

// What was copied to the replica is the model, and nobody answers with it.
TEST(ModelAudit, FindsANetworkThatDoesNotComputeInTheReplica) {
  TrainConfig config = small_config();
  config.audit = true;
  complete(config);
  const Experiment experiment(config, {});
  run_loopback(1, [&](Rank& rank) {
    ToyLearner learner;
    learner.came_apart = true;
    expect_found(
        [&] {
          Score score;
          evaluate(rank.peers, learner, experiment, kModel, kModel.weights, true, score);
        },
        "the weights that were scored are not the model's");
    expect_found([&] { save_model(learner, kModel, "", true); },
                 "the weights that were saved are not the model's");
  });
}

TEST(ModelAudit, FindsAFileThatDoesNotHoldTheModel) {
  ToyLearner learner;
  learner.spoils_statistics = true;
  expect_found([&] { save_model(learner, kModel, "a.pt", true); },
               "the statistics of batch norm that were read back from a.pt are not the model's");
  learner.spoils_weights = true;
  expect_found([&] { save_model(learner, kModel, "a.pt", true); },
               "the weights that were read back from a.pt are not the model's");
  EXPECT_NO_THROW(save_model(learner, kModel, "a.pt", false));
}

TEST(ModelAudit, FindsAModelThatIsNotTheOneThatIsScored) {
  TrainConfig config = small_config();
  config.audit = true;
  complete(config);
  const Experiment experiment(config, {});
  run_loopback(1, [&](Rank& rank) {
    ToyLearner learner;
    const auto score = [&] {
      Score score;
      evaluate(rank.peers, learner, experiment, kModel, kModel.weights, true, score);
    };
    EXPECT_NO_THROW(score());
    learner.keeps_statistics = true;
    expect_found(score, "the statistics of batch norm that were scored are not the model's");
    learner.keeps_weights = true;
    expect_found(score, "the weights that were scored are not the model's");
  });
}

TEST(ModelAudit, FindsAMeanThatIsNone) {
  run_loopback(3, [&](Rank& rank) {
    const auto r = static_cast<float>(rank.rank());
    const Floats mine(50, r);  // by masses 1, 2 and 3: (0 + 2 + 6)/6
    const auto prove = [&](const Floats& mean) {
      prove_mean(rank.peers, "weights", mine, 1 + r, mean);
    };
    EXPECT_NO_THROW(prove(Floats(50, 8.0f / 6)));
    expect_found([&] { prove(mine); }, "the weights of the model");           // its own
    expect_found([&] { prove(Floats(50, 1)); }, "the weights of the model");  // all alike
    Floats almost(50, 8.0f / 6);
    almost[17] += 1e-3f;
    expect_found([&] { prove(almost); }, "the weights of the model");
    EXPECT_EQ(mean_over(rank.peers, mine, 1 + r, true), Floats(50, 8.0f / 6));
  });
}

}  // namespace
}  // namespace lockstep::testing
