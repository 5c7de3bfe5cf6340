#include "replica/backward_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "replica/networks.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

// Two parameters that the loss does not reach lie between two that it does.
struct HalfUsed : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(36, 4));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(4, 4));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(4, 5));
  torch::Tensor forward(const torch::Tensor& x) { return last(first(x.flatten(1))); }
};

void backward(Network& network) {
  const Batch batch;
  cross_entropy(network.forward(batch.x), batch.y).backward();
}

TEST(BackwardHooks, ReportLastLayersFirstAndTheUnusedWhenFlushed) {
  Flat flat(network_of(std::make_shared<HalfUsed>()));
  std::vector<std::string> seen;
  BackwardHooks hooks(flat.model, [&](Slice part) {
    seen.push_back(flat.model.name_at(part.begin) + " to " + flat.model.name_at(part.end() - 1));
  });
  for (int times = 0; times < 3; ++times) {
    backward(*flat.network);
    EXPECT_THAT(seen, ElementsAre("last.bias to last.bias", "last.weight to last.weight",
                                  "first.bias to first.bias", "first.weight to first.weight"));
    seen.clear();
    hooks.flush();
    EXPECT_THAT(seen, ElementsAre("unused.weight to unused.bias")) << "neighbours as one";
    seen.clear();
  }
}

TEST(BackwardHooks, GradientsAreFinalWhenReported) {
  Flat flat(network_of(std::make_shared<TiedNet>()));
  std::vector<float> reported(flat.model.count());
  int reports = 0;
  BackwardHooks hooks(flat.model, [&](Slice part) {
    ++reports;
    std::ranges::copy(flat.gradients.floats().subspan(part.begin, part.count),
                      reported.begin() + static_cast<std::ptrdiff_t>(part.begin));
  });
  backward(*flat.network);
  EXPECT_EQ(reports, 6) << "one used in three places, once";
  EXPECT_TRUE(std::ranges::equal(flat.gradients.floats(), reported));
}

TEST(BackwardHooks, WhatTheyThrowLeavesBackward) {
  Flat flat(network_of(std::make_shared<HalfUsed>()));
  BackwardHooks hooks(flat.model, [](Slice) { throw std::runtime_error("no further"); });
  EXPECT_THAT([&] { backward(*flat.network); },
              ::testing::ThrowsMessage<std::runtime_error>("no further"));
}

TEST(BackwardHooks, AreGoneWithTheirOwnerAlsoFromAGraphAlive) {
  Flat flat(network_of(std::make_shared<HalfUsed>()));
  const Batch batch;
  int reports = 0;
  torch::Tensor loss;
  {
    BackwardHooks hooks(flat.model, [&](Slice) { ++reports; });
    loss = cross_entropy(flat.network->forward(batch.x), batch.y);
  }
  loss.backward();
  EXPECT_EQ(reports, 0);
}

}  // namespace
}  // namespace lockstep
