// A LibTorch loop with an Averager: what the loop did alone, several ranks do together.
#include "lockstep/averager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collectives/barrier.h"
#include "core/error.h"
#include "transport/fabric.h"
#include "transport/simulated/simulated.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two layers, the second of which forward() may leave out.
struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(3, 3));
  torch::Tensor forward(const torch::Tensor& x, bool short_cut = false) {
    const torch::Tensor hidden = torch::tanh(in(x));
    return short_cut ? hidden : out(hidden);
  }
};

// The same on every rank, whatever other ranks draw meanwhile.
torch::Tensor numbers(std::int64_t rows, std::int64_t columns, double phase) {
  return torch::sin(torch::arange(rows * columns, torch::kFloat) + phase).view({rows, columns});
}
void set_weights(Net& net, double phase) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& p : net.parameters()) p.copy_(numbers(1, p.numel(), phase).view(p.sizes()));
}
torch::Tensor loss_of(Net& net, const torch::Tensor& x) { return net.forward(x).square().mean(); }

torch::Tensor flat(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& t : tensors) rows.push_back(t.detach().reshape({-1}));
  return torch::cat(rows).clone();
}
torch::Tensor weights_of(const Net& net) { return flat(net.parameters()); }
torch::Tensor gradients_of(const Net& net) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& p : net.parameters()) gradients.push_back(p.grad());
  return flat(gradients);
}

// What each rank came to.
using Results = std::vector<torch::Tensor>;
Results on_ranks(int ranks, const std::function<torch::Tensor(Rank&)>& body) {
  Results results(ranks);
  run_shm(ranks, [&](Rank& rank) { results[rank.rank()] = body(rank); });
  return results;
}

TEST(Averager, AllRanksStartWithTheWeightsOfRankZero) {
  const Results weights = on_ranks(3, [](Rank& rank) {
    Net net;
    set_weights(net, rank.rank());
    const Averager averager(rank, net.parameters());
    return weights_of(net);
  });
  Net expected;
  set_weights(expected, 0);
  for (const torch::Tensor& w : weights) EXPECT_TRUE(torch::equal(w, weights_of(expected)));
}

TEST(Averager, AccumulatedGradientsAreThoseOfOneBigBatch) {
  const torch::Tensor x = numbers(8, 4, 0.5);
  const Results gradients = on_ranks(2, [&](Rank& rank) {
    Net net;
    set_weights(net, 1);
    Averager averager(rank, net.parameters());
    for (int b = 0; b < 2; ++b) (loss_of(net, x.chunk(4)[2 * rank.rank() + b]) / 2).backward();
    averager.average_gradients();
    return gradients_of(net);
  });
  Net alone;
  set_weights(alone, 1);
  loss_of(alone, x).backward();
  EXPECT_TRUE(torch::allclose(gradients[0], gradients_of(alone), 1e-5, 1e-7));
  EXPECT_TRUE(torch::equal(gradients[0], gradients[1])) << "the same bits";
}

// A loop with clipping, its optimiser made before or after: as one process on all samples.
void expect_as_alone(bool optimiser_first) {
  const auto steps = [](Net& net, const torch::Tensor& x, torch::optim::Optimizer& optimiser,
                        const std::function<void()>& average) {
    for (int step = 0; step < 5; ++step) {
      optimiser.zero_grad();
      loss_of(net, x).backward();
      average();
      torch::nn::utils::clip_grad_norm_(net.parameters(), 0.05);
      optimiser.step();
    }
  };
  const torch::Tensor x = numbers(8, 4, 0.5);
  const torch::optim::AdamOptions options(0.1);
  const Results weights = on_ranks(2, [&](Rank& rank) {
    Net net;
    set_weights(net, 1);
    std::optional<torch::optim::Adam> optimiser;
    if (optimiser_first) optimiser.emplace(net.parameters(), options);
    Averager averager(rank, net.parameters());
    if (!optimiser_first) optimiser.emplace(net.parameters(), options);
    steps(net, x.chunk(2)[rank.rank()], *optimiser, [&] { averager.average_gradients(); });
    return weights_of(net);
  });
  Net alone;
  set_weights(alone, 1);
  const torch::Tensor before = weights_of(alone);
  torch::optim::Adam optimiser(alone.parameters(), options);
  steps(alone, x, optimiser, [] {});
  EXPECT_FALSE(torch::allclose(weights[0], before, 1e-2, 1e-2)) << "it moved";
  EXPECT_TRUE(torch::allclose(weights[0], weights_of(alone), 1e-4, 1e-5));
  EXPECT_TRUE(torch::equal(weights[0], weights[1])) << "the same bits";
}
TEST(Averager, WorksWithAnOptimiserMadeBefore) { expect_as_alone(true); }
TEST(Averager, WorksWithAnOptimiserMadeAfter) { expect_as_alone(false); }

TEST(Averager, AParameterThatIsNotUsedHasAGradientOfZero) {
  const Results gradients = on_ranks(2, [](Rank& rank) {
    Net net;
    Averager averager(rank, net.parameters());
    const bool short_cut = rank.rank() == 0;  // one rank goes past the second layer
    net.forward(numbers(2, 4, 1), short_cut).sum().backward();
    averager.average_gradients();
    return net.out->bias.grad().clone();
  });
  for (const torch::Tensor& g : gradients) EXPECT_TRUE(torch::equal(g, torch::full(3, 1.0f)));
}

TEST(Averager, AveragesWeightsByANamedCollective) {
  const Results weights = on_ranks(3, [](Rank& rank) {
    Net net;
    Averager averager(rank, net.parameters(), "ring");
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& p : net.parameters()) p.fill_(rank.rank());
    }
    averager.average_weights();
    return weights_of(net);
  });
  for (const torch::Tensor& w : weights) EXPECT_TRUE(torch::equal(w, torch::ones_like(w)));
}

TEST(Averager, ParametersOutliveIt) {
  on_ranks(2, [](Rank& rank) {
    Net net;
    set_weights(net, 0);
    const torch::Tensor expected = weights_of(net);
    {
      const Averager averager(rank, net.parameters());
      loss_of(net, numbers(2, 4, 0)).backward();
    }
    rank.peers.open_window(1 << 16);  // where the memory was
    EXPECT_TRUE(torch::equal(weights_of(net), expected));
    EXPECT_GT(gradients_of(net).abs().sum().item<double>(), 0);
    loss_of(net, numbers(2, 4, 0)).backward();
    return torch::Tensor();
  });
}

// Each tensor of Net in a bucket of its own, the last first: what overlap does with bucket_mib = 0.
constexpr const char* kEachAlone = "3,9,3,12";

// The weights after some steps, each of two backwards, of a loop whose gradients travel so. It says
// which backward is the last, or never says so.
Results after_steps(int ranks, const Carriage& carriage, bool says_which_is_last = true) {
  return on_ranks(ranks, [&](Rank& rank) {
    Net net;
    set_weights(net, 1);
    torch::optim::SGD optimiser(net.parameters(), torch::optim::SGDOptions(0.2).momentum(0.5));
    Averager averager(rank, net.parameters(), carriage);
    for (int step = 0; step < 5; ++step) {
      optimiser.zero_grad();
      for (const bool last : {false, true}) {
        if (last && says_which_is_last) averager.last_backward();
        loss_of(net, numbers(4, 4, 10 * step + 3 * rank.rank() + (last ? 1 : 0))).backward();
      }
      averager.average_gradients();
      optimiser.step();
    }
    return weights_of(net);
  });
}

// By how its gradients are compressed, and the number of ranks.
class CarriedAverager : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& code() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  Carriage carriage(const std::string& overlap) const {
    return {.compress = code(),
            .overlap = overlap,
            .bucket_mib = 0,
            .buckets = overlap == "none" ? kEachAlone : "",
            .collective = "ring"};
  }
};
INSTANTIATE_TEST_SUITE_P(Every, CarriedAverager,
                         ::testing::Combine(::testing::Values("", "fp16", "int8:bucket=4",
                                                              "topk:ratio=0.4", "onebit", "sign",
                                                              "powersgd:rank=1,saving=0.5,start=1"),
                                            ::testing::Values(2, 3)));

TEST_P(CarriedAverager, GivesTheSameBitsBesideBackward) {
  const Results apart = after_steps(ranks(), carriage("none"));
  const Results beside = after_steps(ranks(), carriage("wfbp"));
  const Results unsaid = after_steps(ranks(), carriage("wfbp"), false);
  for (int r = 0; r < ranks(); ++r) {
    EXPECT_TRUE(torch::equal(apart[r], apart[0])) << r;
    EXPECT_TRUE(torch::equal(beside[r], apart[0])) << r;
    EXPECT_TRUE(torch::equal(unsaid[r], apart[0])) << r;
  }
}

TEST_P(CarriedAverager, LosesWhatItsCodeLoses) {
  const Results exact = after_steps(ranks(), Carriage{.collective = "ring"});
  const Results coded = after_steps(ranks(), carriage("wfbp"));
  EXPECT_EQ(torch::allclose(coded[0], exact[0], 1e-6, 1e-7), code().empty());
}

TEST(Averager, BeginsTheExchangeInsideTheLastBackward) {
  std::atomic<int> posted = 0;
  run_shm(2, [&](Rank& rank) {
    class Counted final : public Background {
     public:
      Counted(Background& inner, std::atomic<int>& posted) : inner_(inner), posted_(posted) {}
      std::uint64_t post(Job job) override {
        ++posted_;
        return inner_.post(std::move(job));
      }
      void wait(std::uint64_t number) override { inner_.wait(number); }
      void ring() override { inner_.ring(); }

     private:
      Background& inner_;
      std::atomic<int>& posted_;
    } counted(rank.background, posted);
    Rank watched{rank.peers, rank.clock, counted, rank.lock, rank.seed};
    Net net;
    Averager averager(watched, net.parameters(), Carriage{.overlap = "wfbp", .bucket_mib = 0});
    const auto backward = [&] { loss_of(net, numbers(2, 4, rank.rank())).backward(); };
    backward();
    barrier(rank.peers, {Purpose::control});
    EXPECT_EQ(posted, 0) << "this one was not said to be the last";
    barrier(rank.peers, {Purpose::control});
    averager.last_backward();
    backward();
    barrier(rank.peers, {Purpose::control});
    EXPECT_EQ(posted, 2 * 4) << "all buckets of both ranks";
    averager.average_gradients();
  });
}

// The error that the body has on a single rank.
auto alone(const std::function<void(Rank&)>& body) {
  return [body] { run_loopback(1, body); };
}

TEST(Averager, AGradientThatWasDroppedIsNamed) {
  EXPECT_THAT(alone([](Rank& rank) {
                Net net;
                Averager averager(rank, net.parameters());
                net.zero_grad(/*set_to_none=*/true);
                loss_of(net, numbers(2, 4, 0)).backward();
                averager.average_gradients();
              }),
              ThrowsMessage<UsageError>(AllOf(HasSubstr("gradient of parameter #0 (3x4)"),
                                              HasSubstr("zero_grad(false)"))));
}

TEST(Averager, ABackwardAfterTheLastOneIsRefused) {
  EXPECT_THAT(alone([](Rank& rank) {
                Net net;
                Averager averager(rank, net.parameters(), Carriage{.overlap = "wfbp"});
                averager.last_backward();
                for (int i = 0; i < 2; ++i) loss_of(net, numbers(2, 4, i)).backward();
                averager.average_gradients();
              }),
              ThrowsMessage<UsageError>(HasSubstr("a second backward came after")));
}

// Buckets are on their way that nobody waits for any more: nothing may begin beside them.
TEST(Averager, IsOfNoUseAfterAnAverageThatFailedUnderWay) {
  run_loopback(1, [](Rank& rank) {
    Net net;
    Averager averager(rank, net.parameters(), Carriage{.overlap = "wfbp"});
    averager.last_backward();
    for (int i = 0; i < 2; ++i) loss_of(net, numbers(2, 4, i)).backward();
    EXPECT_THROW(averager.average_gradients(), UsageError);
    const auto refused = ThrowsMessage<UsageError>(HasSubstr("make another Averager"));
    EXPECT_THAT([&] { averager.last_backward(); }, refused);
    EXPECT_THAT([&] { averager.average_gradients(); }, refused);
    EXPECT_THAT([&] { averager.average_weights(); }, refused);
  });
}

// An error before anything was sent can be mended.
TEST(Averager, GoesOnWhenADroppedGradientIsThereAgain) {
  run_loopback(1, [](Rank& rank) {
    Net net;
    Averager averager(rank, net.parameters());
    const torch::Tensor kept = net.out->bias.grad();
    net.out->bias.mutable_grad() = torch::zeros(3);
    EXPECT_THROW(averager.average_gradients(), UsageError);
    net.out->bias.mutable_grad() = kept;
    averager.average_gradients();
  });
}

TEST(Averager, ACodeThatRepeatsTheOptimiserIsRefused) {
  EXPECT_THAT(
      alone([](Rank& rank) { Averager(rank, Net().parameters(), Carriage{.compress = "dgc"}); }),
      ThrowsMessage<UsageError>(HasSubstr("the loop's own")));
}

TEST(Averager, AParameterThatWasMovedAwayIsNamed) {
  EXPECT_THAT(alone([](Rank& rank) {
                Net net;
                Averager averager(rank, net.parameters());
                net.out->bias.set_data(torch::zeros(3));
                averager.average_weights();
              }),
              ThrowsMessage<UsageError>(HasSubstr("parameter #3 (3) was given other memory")));
}

TEST(Averager, ADeviceOtherThanTheCpuIsRefused) {
  // As a CUDA tensor would be; this one needs no device.
  const auto elsewhere = torch::zeros(3, torch::device(torch::kMeta).requires_grad(true));
  EXPECT_THAT(alone([&](Rank& rank) { Averager(rank, {elsewhere}); }),
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("#0 (3)' is on meta"), HasSubstr("runs on the CPU only"))));
}

TEST(Averager, AnUnknownCollectiveIsRefused) {
  EXPECT_THAT(alone([](Rank& rank) { Averager(rank, Net().parameters(), "rnig"); }),
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'ring'")));
}

TEST(Averager, NetworksThatDifferAreRefusedOnEveryRank) {
  std::atomic<int> refused = 0;
  run_shm(3, [&](Rank& rank) {
    const torch::nn::Linear net(4, rank.rank() == 2 ? 3 : 2);
    try {
      Averager(rank, net->parameters());
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr("networks differ"));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

// One simulation a process, and these tests share one: keep it the only one.
TEST(Averager, RunsInSimulation) {
  SimulatedCluster cluster;
  cluster.ranks = 4;
  int equal = 0;
  run_simulated(cluster, [&](Rank& rank) {
    Net net;
    Averager averager(rank, net.parameters());
    loss_of(net, numbers(2, 4, rank.rank())).backward();
    rank.clock.charge(0.1);
    averager.average_gradients();
    const torch::Tensor expected = gradients_of(net);
    averager.average_gradients();  // the mean of equals
    if (torch::allclose(gradients_of(net), expected) && rank.clock.now() > 0.1) ++equal;
  });
  EXPECT_EQ(equal, 4);
}

}  // namespace
}  // namespace lockstep
