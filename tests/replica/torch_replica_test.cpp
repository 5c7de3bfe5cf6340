#include "replica/torch_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "replica/networks.h"
#include "replica/sized_replica.h"

namespace lockstep {
namespace {

struct DropoutNet : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(36, 20));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(20, 5));
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::dropout(in(x.flatten(1)), 0.5, is_training()));
  }
};

// A replica with its memory.
struct Worker {
  explicit Worker(int rank, std::uint64_t seed = 7, const std::string& optimiser = "sgd:lr=0.1")
      : network(draw_network(seed, [] { return network_of(std::make_shared<DropoutNet>()); })),
        weights(4 * parameter_count(*network)),
        gradients(4 * parameter_count(*network)),
        replica({.network = std::move(network),
                 .weights = weights.bytes(),
                 .gradients = gradients.bytes(),
                 .optimiser = optimiser_options(optimiser),
                 .schedule = Schedule("constant", {.base_lr = 0.1}),
                 .seed = seed,
                 .rank = rank}) {}

  double train(std::uint64_t step, const Batch& batch) {
    const double loss = replica.backward(batch.x, batch.y, cross_entropy);
    replica.apply_gradients(step);
    return loss;
  }
  std::vector<float> numbers() const { return {weights.floats().begin(), weights.floats().end()}; }

  std::unique_ptr<Network> network;
  ZeroPages weights, gradients;
  TorchReplica replica;
};

TEST(TorchReplica, RanksStartFromTheSameWeights) {
  EXPECT_EQ(Worker(0).numbers(), Worker(3).numbers());
  EXPECT_NE(Worker(0).numbers(), Worker(0, 8).numbers()) << "another seed";
}

TEST(TorchReplica, EachRankDrawsItsOwnNumbersHoweverTheyInterleave) {
  const Batch batch;
  std::vector<double> alone[2], mixed[2];
  for (int rank : {0, 1}) {
    Worker worker(rank);
    for (std::uint64_t step = 0; step < 4; ++step) alone[rank].push_back(worker.train(step, batch));
  }
  Worker first(0), second(1);
  for (std::uint64_t step = 0; step < 4; ++step) {
    torch::rand(3);  // somebody else's draw
    mixed[1].push_back(second.train(step, batch));
    mixed[0].push_back(first.train(step, batch));
  }
  EXPECT_EQ(mixed[0], alone[0]);
  EXPECT_EQ(mixed[1], alone[1]);
  EXPECT_NE(alone[0], alone[1]);
}

TEST(TorchReplica, AnOptimiserThatForgotCountsItsStepsAnew) {
  // Adam's corrections are those of its own first step, whatever the step of the run.
  Worker used(0, 7, "adam"), fresh(0, 7, "adam");
  for (std::uint64_t step = 0; step < 3; ++step) used.train(step, Batch());
  used.replica.forget();
  const auto step_of = [](Worker& worker, std::uint64_t step) {
    std::ranges::fill(worker.weights.floats(), 1.0f);
    const Values gradients = worker.replica.gradients();
    std::fill_n(reinterpret_cast<float*>(gradients.bytes().data), gradients.count(), 0.5f);
    worker.replica.apply_gradients(step);
    return worker.numbers();
  };
  for (std::uint64_t step = 0; step < 2; ++step)
    EXPECT_EQ(step_of(used, 10 + step), step_of(fresh, step)) << step;
}

TEST(TorchReplica, LeavesTheDefaultGeneratorAsItWas) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::randn(3);
  torch::manual_seed(5);
  const Batch batch{torch::ones({4, 1, 6, 6}), torch::ones(4, torch::kLong)};
  Worker(0).train(0, batch);
  EXPECT_TRUE(same_bits(torch::randn(3), expected));
}

TEST(TorchReplica, RandomStateGoesOnFromACheckpoint) {
  const Batch batch;
  Worker worker(0), resumed(0, 7);
  worker.train(0, batch);
  resumed.train(0, batch);
  resumed.train(1, batch);  // draws on
  const std::string state = worker.replica.random().state();
  const auto draw = [](Worker& w) {
    return w.replica.compute([] { return torch::cat({torch::randn(3), torch::rand(3)}); });
  };
  const torch::Tensor expected = draw(worker);
  resumed.replica.random().restore(state);
  EXPECT_TRUE(same_bits(draw(resumed), expected));
  EXPECT_THROW(resumed.replica.random().restore("no state"), UsageError);
}

TEST(TorchReplica, OneWorkerIsPlainLibTorch) {
  std::vector<Batch> batches(6);
  auto plain = std::make_shared<ConvNet>();
  auto twin = std::make_shared<ConvNet>();
  for (auto& item : twin->named_parameters())
    item.value().data().copy_(*plain->named_parameters().find(item.key()));
  auto network = network_of(twin);
  const std::size_t count = parameter_count(*network);
  ZeroPages weights(4 * count), gradients(4 * count);
  TorchReplica replica({.network = std::move(network),
                        .weights = weights.bytes(),
                        .gradients = gradients.bytes(),
                        .optimiser = optimiser_options("sgd:lr=0.05,momentum=0.9"),
                        .schedule = Schedule("constant", {.base_lr = 0.05})});
  torch::optim::SGD rule(plain->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (std::uint64_t step = 0; step < batches.size(); ++step) {
    const auto& [x, y] = batches[step];
    rule.zero_grad();
    const torch::Tensor loss = cross_entropy(plain->forward(x), y);
    loss.backward();
    rule.step();
    EXPECT_EQ(replica.backward(x, y, cross_entropy), loss.item<double>());
    replica.apply_gradients(step);
  }
  for (const auto& [name, tensor] : replica.network().parameters())
    EXPECT_TRUE(same_bits(tensor, *plain->named_parameters().find(name))) << name;
}

// The gradients of a step that starts with some left over, by whatever happened before it.
TEST(TorchReplica, GradientsNeverCarryOverIntoTheNextStep) {
  const Batch batch;
  const auto gradients_after = [&](auto before) {
    Worker worker(0);
    const auto weights = worker.numbers();
    before(worker);
    std::ranges::copy(weights, worker.weights.floats().begin());
    worker.replica.random() = RandomStream(1, 0, 0);
    worker.replica.backward(batch.x, batch.y, cross_entropy);
    return std::vector<float>(worker.gradients.floats().begin(), worker.gradients.floats().end());
  };
  const auto expected = gradients_after([](Worker&) {});
  const auto again = [&](Worker& w) { w.replica.backward(batch.x, batch.y, cross_entropy); };
  EXPECT_EQ(gradients_after(again), expected) << "nothing applied, as on a server's worker";
  EXPECT_EQ(gradients_after([&](Worker& w) {
              again(w);
              w.replica.apply_gradients(0, {11, 300});
              w.replica.apply_gradients(0, {400, 5});
            }),
            expected)
      << "a part applied";
  EXPECT_EQ(gradients_after([&](Worker& w) { w.train(0, batch); }), expected) << "all applied";
  EXPECT_EQ(gradients_after([&](Worker& w) {
              w.train(0, batch);
              scale(w.replica.gradients(), 0);
              std::ranges::fill(w.gradients.floats(), 3.0f);
            }),
            expected)
      << "all applied and written to again";
}

TEST(TorchReplica, AnEmptyBatchHasZeroGradients) {
  Worker worker(0);
  const Batch batch;
  worker.replica.backward(batch.x, batch.y, cross_entropy);
  EXPECT_EQ(worker.replica.backward(batch.x.slice(0, 0, 0), batch.y.slice(0, 0, 0), cross_entropy),
            0);
  EXPECT_TRUE(std::ranges::all_of(worker.gradients.floats(), [](float g) { return g == 0; }));
}

TEST(TorchReplica, EveryPartIsReportedOnceAlsoWhatIsUnused) {
  Worker worker(0);
  std::vector<int> reported(worker.weights.floats().size());
  worker.replica.on_slice_ready([&](Slice part) {
    for (std::size_t i = part.begin; i < part.end(); ++i) ++reported[i];
  });
  const Batch batch;
  for (int times = 1; times <= 3; ++times) {
    worker.replica.backward(batch.x, batch.y, cross_entropy);
    EXPECT_THAT(reported, ::testing::Each(times));
  }
  worker.replica.backward(batch.x.slice(0, 0, 0), batch.y.slice(0, 0, 0), cross_entropy);
  EXPECT_THAT(reported, ::testing::Each(4)) << "an empty batch too";
}

TEST(TorchReplica, PredictsWithoutDropoutAndGradients) {
  Worker worker(0);
  const Batch batch;
  const torch::Tensor once = worker.replica.predict(batch.x);
  EXPECT_TRUE(same_bits(once, worker.replica.predict(batch.x)));
  EXPECT_FALSE(once.requires_grad());
  const double loss = worker.replica.backward(batch.x, batch.y, cross_entropy);
  EXPECT_NE(worker.replica.backward(batch.x, batch.y, cross_entropy), loss) << "dropout is back";
}

TEST(TorchReplica, NamesTheFirstBadGradient) {
  Worker worker(0);
  EXPECT_EQ(worker.replica.first_bad_gradient(), std::nullopt);
  auto all = worker.gradients.floats();
  all[all.size() - 1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(worker.replica.first_bad_gradient(), "out.bias");
  all[722] = std::numeric_limits<float>::quiet_NaN();  // in: 36 * 20
  EXPECT_EQ(worker.replica.first_bad_gradient(), "in.bias");
  EXPECT_EQ(worker.replica.first_bad_gradient({0, 722}), std::nullopt);
  EXPECT_EQ(worker.replica.first_bad_gradient({723, all.size() - 723}), "out.bias");
}

TEST(TorchReplica, TakesItsTurn) {
  std::vector<std::string> seen;
  const Turns turns{[&] { seen.emplace_back("take"); }, [&] { seen.emplace_back("give"); }};
  draw_network(
      1,
      [&] {
        seen.emplace_back("make");
        return network_of(std::make_shared<ConvNet>());
      },
      turns);
  EXPECT_THAT(seen, ::testing::ElementsAre("take", "make", "give"));
}

TEST(SizedReplica, IsHollow) {
  SizedReplica replica({{"all", {0, 138'357'544}, {138'357'544}, 0}});
  EXPECT_TRUE(replica.weights().is_hollow());
  EXPECT_TRUE(replica.gradients().is_hollow());
  EXPECT_EQ(replica.weights().count(), 138'357'544u);
  Replica& as_seen = replica;
  as_seen.apply_gradients(0);
}

}  // namespace
}  // namespace lockstep
