// A network that is cut over several ranks, through the interfaces that whole networks use: two
// linear layers on two ranks come to the same bits as both of them on one.
#include <gtest/gtest.h>

#include "collectives/all_reduce.h"
#include "strategies/registry.h"
#include "strategies/toy_replica.h"
#include "train/worker.h"
#include "transport/group.h"
#include "worlds.h"

namespace lockstep::testing {
namespace {

constexpr int kMicroBatches = 3;
constexpr std::size_t kSamples = 2;           // of a micro-batch
constexpr std::size_t kWidths[] = {3, 4, 2};  // of the samples, between the layers, of answers
constexpr std::size_t kLayers = 2;
constexpr Slice kTestSet{0, kMicroBatches* kSamples};
using Floats = std::vector<float>;

std::size_t weights_before(std::size_t layer) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < layer; ++i) count += kWidths[i] * kWidths[i + 1];
  return count;
}

Values values_of(Floats& numbers) { return {numbers.data(), numbers.size(), Type::fp32}; }

// Layers `first` to `last` - 1 of the network, without LibTorch. The first layer reads samples, the
// last one computes the loss, half of the squared distance from what the answers should be.
class ToyStage final : public Learner {
 public:
  ToyStage(std::size_t first, std::size_t last, int replica)
      : first_(first),
        last_(last),
        number_(replica),
        replica_(nullptr, Memory::plain, weights_before(last) - weights_before(first), 0.1f, 0.5f),
        activations_(kLayers + 1),
        gradients_(kLayers + 1) {
    for (std::size_t i = 0; i < replica_.weight_span().size(); ++i)
      replica_.weight_span()[i] = draw(weights_before(first) + i);
  }

  Replica& replica() override { return replica_; }
  void open_step(std::uint64_t step) override {
    step_ = step;
    loss_ = 0;
    tested_ = false;
    std::ranges::fill(replica_.gradient_span(), 0.0f);
    open_batch();
  }
  void open_task_batch(std::size_t, std::uint64_t step) override { open_step(step); }
  void open_test(Slice) override {
    tested_ = true;
    tally_ = {};
    open_batch();
  }

  std::vector<Action> actions() const override {
    std::vector<Action> all;
    for (const StagePass pass : {StagePass::forward, StagePass::backward})
      for (int micro = 0; micro < kMicroBatches; ++micro)
        if (pass == StagePass::forward || !tested_)
          all.push_back({.pass = pass, .stage = stage(), .micro = micro});
    return all;
  }
  std::vector<Passage> needs(const Action& action) override {
    const bool forward = action.pass == StagePass::forward;
    if (forward ? first_ == 0 : last_ == kLayers) return {};
    const int from = forward ? stage() - 1 : stage() + 1;
    const Action sends{.pass = action.pass, .stage = from, .micro = action.micro};
    auto& at = forward ? activations_[first_] : gradients_[last_];
    return {{from, 0, sends, values_of(at[action.micro])}};
  }
  std::vector<Passage> run(const Action& action) override {
    const bool forward = action.pass == StagePass::forward;
    forward ? this->forward(action.micro) : backward(action.micro);
    if (forward ? last_ == kLayers : first_ == 0) return {};
    auto& made = forward ? activations_[last_] : gradients_[first_];
    return {{forward ? stage() + 1 : stage() - 1, 0, action, values_of(made[action.micro])}};
  }
  double end_step() override { return loss_; }
  Tally end_test() override { return tally_; }
  void on_slice_ready(std::function<void(Slice)> ready) override { ready_ = std::move(ready); }
  const Times& last() const override { return times_; }

  void open_task(const std::vector<std::uint32_t>&, std::size_t, int) override {}
  void save_model(const std::string&) override {}
  Model held_by_network() override { return {}; }
  Model read_model(const std::string&) override { return {}; }
  std::vector<Blob> state() override { return {}; }
  void restore(const Checkpoint&, int) override {}

 private:
  int stage() const { return static_cast<int>(first_); }
  void forward(int micro) {
    if (first_ == 0)
      for (std::size_t i = 0; i < activations_[0][micro].size(); ++i)
        activations_[0][micro][i] = sample(micro, i);
    for (std::size_t layer = first_; layer < last_; ++layer) {
      const std::size_t in = kWidths[layer], out = kWidths[layer + 1];
      for (std::size_t s = 0; s < kSamples; ++s)
        for (std::size_t o = 0; o < out; ++o) {
          float sum = 0;
          for (std::size_t i = 0; i < in; ++i)
            sum += weight(layer, o, i) * activations_[layer][micro][s * in + i];
          activations_[layer + 1][micro][s * out + o] = sum;
        }
    }
    if (last_ == kLayers) answer(micro);
  }
  void backward(int micro) {
    for (std::size_t layer = last_; layer-- > first_;) {
      const std::size_t in = kWidths[layer], out = kWidths[layer + 1];
      Floats& below = gradients_[layer][micro];
      std::ranges::fill(below, 0.0f);
      for (std::size_t s = 0; s < kSamples; ++s)
        for (std::size_t o = 0; o < out; ++o)
          for (std::size_t i = 0; i < in; ++i) {
            const float above = gradients_[layer + 1][micro][s * out + o];
            replica_.gradient_span()[at(layer, o, i)] +=
                above * activations_[layer][micro][s * in + i];
            below[s * in + i] += above * weight(layer, o, i);
          }
      if (micro + 1 == kMicroBatches && ready_)
        ready_({weights_before(layer) - weights_before(first_), in * out});
    }
  }
  static float draw(std::size_t i) { return static_cast<float>((i * 37 + 11) % 19) / 19 - 0.5f; }
  float sample(int micro, std::size_t i) const {
    return draw(1000 * step_ + 100 * static_cast<std::size_t>(micro) + 7 * number_ + i);
  }
  std::size_t at(std::size_t layer, std::size_t o, std::size_t i) const {
    return weights_before(layer) - weights_before(first_) + o * kWidths[layer] + i;
  }
  float weight(std::size_t layer, std::size_t o, std::size_t i) {
    return replica_.weight_span()[at(layer, o, i)];
  }
  void open_batch() {
    for (std::size_t layer = 0; layer <= kLayers; ++layer)
      activations_[layer] = gradients_[layer] =
          std::vector(kMicroBatches, Floats(kSamples * kWidths[layer]));
  }
  void answer(int micro) {
    const Floats& answers = activations_[kLayers][micro];
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const float apart = answers[i] - draw(i + 5);
      gradients_[kLayers][micro][i] = apart / (kMicroBatches * kSamples);
      (tested_ ? tally_.loss_sum : loss_) += 0.5 * apart * apart / (kMicroBatches * kSamples);
    }
  }

  const std::size_t first_, last_;
  const std::size_t number_;
  ToyReplica replica_;
  std::vector<std::vector<Floats>> activations_, gradients_;  // by layer and micro-batch
  std::uint64_t step_ = 0;
  double loss_ = 0;
  bool tested_ = false;
  Tally tally_;
  std::function<void(Slice)> ready_;
  const Times times_;
};

constexpr std::uint64_t kSteps = 5;

struct Ended {
  Floats weights;
  std::vector<double> losses;  // of the steps, then of the test set
};

// `exchange`: what comes between backward and the next step.
Ended train_part(ToyStage& learner, Transport* stages,
                 const std::function<void(std::uint64_t step)>& exchange) {
  Ended ended;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    learner.open_step(step);
    ended.losses.push_back(compute(learner, stages));
    exchange(step);
  }
  ended.losses.push_back(tally_of(learner, kTestSet, stages).loss_sum);
  const Values weights = learner.replica().weights();
  const auto* data = reinterpret_cast<const float*>(weights.bytes().data);
  ended.weights.assign(data, data + weights.count());
  return ended;
}

Ended train_alone(ToyStage& learner, Transport* stages) {
  return train_part(learner, stages,
                    [&](std::uint64_t step) { learner.replica().apply_gradients(step); });
}

Floats part_of(const Floats& whole, std::size_t layer) {
  return {whole.begin() + static_cast<std::ptrdiff_t>(weights_before(layer)),
          whole.begin() + static_cast<std::ptrdiff_t>(weights_before(layer + 1))};
}

class Stages : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Every, Stages, ::testing::ValuesIn(worlds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Stages, TwoComeToTheBitsOfTheWhole) {
  ToyStage whole(0, kLayers, 0);
  const Ended expected = train_alone(whole, nullptr);
  EXPECT_LT(expected.losses[kSteps - 1], expected.losses[0]) << "it learns";
  GetParam().run(2,
                 [&](Rank& rank) {
                   const auto layer = static_cast<std::size_t>(rank.rank());
                   ToyStage stage(layer, layer + 1, 0);
                   const Ended ended = train_alone(stage, &rank.peers);
                   EXPECT_EQ(ended.weights, part_of(expected.weights, layer));
                   EXPECT_EQ(ended.losses,
                             rank.rank() == 1 ? expected.losses : std::vector<double>(kSteps + 1));
                 },
                 {});
}

// A strategy sees the ranks that hold the same stage, and runs unchanged among them.
TEST_P(Stages, TwoReplicasOfTwoKeepInStep) {
  const std::size_t samples[] = {1, 1};
  const auto train_among = [&](ToyStage& learner, Rank& role, Transport* stages) {
    const auto strategy =
        make_strategy("all-reduce", {role, 2, 0, false, all_reduce_named("ring")});
    strategy->begin(learner.replica());
    return train_part(learner, stages, [&](std::uint64_t step) {
      strategy->update(learner.replica(), {step, 0, samples});
    });
  };
  Ended expected;
  run_loopback(2, [&](Rank& rank) {
    ToyStage whole(0, kLayers, rank.rank());
    const Ended ended = train_among(whole, rank, nullptr);
    if (rank.rank() == 0) expected = ended;
  });
  GetParam().run(4,
                 [&](Rank& rank) {
                   const int replica = rank.rank() / 2, stage = rank.rank() % 2;
                   Group stages(rank.peers, {2 * replica, 2 * replica + 1});
                   Group equals(rank.peers, {stage, stage + 2});
                   Rank role{equals, rank.clock, rank.background, rank.lock, rank.seed};
                   const auto layer = static_cast<std::size_t>(stage);
                   ToyStage learner(layer, layer + 1, replica);
                   const Ended ended = train_among(learner, role, &stages);
                   EXPECT_EQ(ended.weights, part_of(expected.weights, layer));
                   if (replica == 0 && stage == 1) {
                     EXPECT_EQ(ended.losses, expected.losses);
                   }
                 },
                 {});
}

TEST(Stage, TellsEachPartOfTheGradientsOnceWhenItIsFinal) {
  ToyStage whole(0, kLayers, 0);
  std::vector<Slice> told;
  bool last_backward = false;
  whole.on_slice_ready([&](Slice part) {
    EXPECT_TRUE(last_backward);
    told.push_back(part);
  });
  whole.open_step(0);
  compute(whole, nullptr, [&](const Action& action) {
    last_backward = action.pass == StagePass::backward && action.micro + 2 == kMicroBatches;
  });
  EXPECT_EQ(told, (std::vector<Slice>{{12, 8}, {0, 12}}));
}

}  // namespace
}  // namespace lockstep::testing
