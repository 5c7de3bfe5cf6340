#include "replica/optimiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "replica/networks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kCount = 40'007;  // odd, and more than one block
constexpr int kSteps = 7;
constexpr double kLr = 0.013;

// Gradients with zeros of both signs among them, as rectifiers leave them.
torch::Tensor some_gradients() {
  torch::Tensor g = torch::randn(kCount);
  g.masked_fill_(torch::rand(kCount) < 0.1, 0.0);
  g.masked_fill_(torch::rand(kCount) < 0.1, -0.0);
  return g;
}

void give(Flat& flat, const torch::Tensor& gradients) {
  std::memcpy(flat.gradients.floats().data(), gradients.data_ptr(), gradients.nbytes());
}

torch::Tensor weights_of(const Flat& flat) {
  return torch::from_blob(flat.weights.floats().data(), kCount, torch::kFloat);
}

// Parts that cover all, of odd sizes and in no order.
std::vector<Slice> odd_parts() {
  std::vector<Slice> parts;
  const std::size_t sizes[] = {1, 7, 4096, 33, 12'345, 3};
  std::size_t at = 0;
  for (std::size_t i = 0; at < kCount; ++i) {
    parts.push_back({at, std::min(sizes[i % 6], kCount - at)});
    at = parts.back().end();
  }
  std::ranges::reverse(parts);
  return parts;
}

template <class Theirs, class TheirOptions>
void expect_bits_of(const std::string& spec, TheirOptions options) {
  torch::manual_seed(3);
  Flat whole(kCount), parts(kCount);
  torch::Tensor theirs = weights_of(whole).clone().set_requires_grad(true);
  weights_of(parts).copy_(weights_of(whole));
  Theirs rule({theirs}, options);
  const auto ours = make_optimiser(optimiser_options(spec), whole.model);
  const auto ours_by_part = make_optimiser(optimiser_options(spec), parts.model);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const torch::Tensor g = some_gradients();
    theirs.mutable_grad() = g.clone();
    give(whole, g);
    give(parts, g);
    rule.step();
    ours->step(kLr, step, {0, kCount});
    for (Slice part : odd_parts()) ours_by_part->step(kLr, step, part);
    ASSERT_TRUE(same_bits(theirs.detach(), weights_of(whole))) << spec << ", step " << step;
    ASSERT_TRUE(same_bits(theirs.detach(), weights_of(parts))) << spec << " by parts, " << step;
    EXPECT_TRUE(std::ranges::all_of(whole.gradients.floats(), [](float x) { return x == 0; }));
  }
}

TEST(Optimiser, SgdHasTheBitsOfLibTorch) {
  using Sgd = torch::optim::SGD;
  const auto base = torch::optim::SGDOptions(kLr);
  const auto plain = [&] { return base; };
  expect_bits_of<Sgd>("sgd", plain());
  expect_bits_of<Sgd>("sgd:momentum=0.9", plain().momentum(0.9));
  expect_bits_of<Sgd>("sgd:weight_decay=0.01", plain().weight_decay(0.01));
  expect_bits_of<Sgd>("sgd:momentum=0.9,weight_decay=0.01",
                      plain().momentum(0.9).weight_decay(0.01));
  expect_bits_of<Sgd>("sgd:momentum=0.5,dampening=0.3", plain().momentum(0.5).dampening(0.3));
  expect_bits_of<Sgd>("sgd:momentum=0.9,nesterov=on,weight_decay=1e-4",
                      plain().momentum(0.9).nesterov(true).weight_decay(1e-4));
}

TEST(Optimiser, AdamHasTheBitsOfLibTorch) {
  const auto plain = [] { return torch::optim::AdamOptions(kLr); };
  expect_bits_of<torch::optim::Adam>("adam", plain());
  expect_bits_of<torch::optim::Adam>("adam:weight_decay=0.01,eps=1e-6,beta1=0.8,beta2=0.95",
                                     plain().weight_decay(0.01).eps(1e-6).betas({0.8, 0.95}));
}

TEST(Optimiser, AdamWHasTheBitsOfLibTorch) {
  expect_bits_of<torch::optim::AdamW>("adamw", torch::optim::AdamWOptions(kLr));
  expect_bits_of<torch::optim::AdamW>("adamw:weight_decay=0",
                                      torch::optim::AdamWOptions(kLr).weight_decay(0));
}

TEST(Optimiser, AdagradHasTheBitsOfLibTorch) {
  const auto plain = [] { return torch::optim::AdagradOptions(kLr); };
  expect_bits_of<torch::optim::Adagrad>("adagrad", plain());
  expect_bits_of<torch::optim::Adagrad>("adagrad:weight_decay=0.01,eps=1e-6",
                                        plain().weight_decay(0.01).eps(1e-6));
}

TEST(Optimiser, StateMovesToAnotherAndGoesOnTheSame) {
  for (const OptimiserRow& row : optimisers()) {
    const std::string spec =
        fmt::format("{}{}", row.name, row.name == "sgd" ? ":momentum=0.9" : "");
    torch::manual_seed(4);
    Flat first(kCount), second(kCount);
    const auto a = make_optimiser(optimiser_options(spec), first.model);
    const auto b = make_optimiser(optimiser_options(spec), second.model);
    give(first, some_gradients());
    a->step(kLr, 0, {0, kCount});
    weights_of(second).copy_(weights_of(first));
    const auto from = a->state(), to = b->state();
    ASSERT_EQ(from.size(), to.size());
    EXPECT_FALSE(from.empty()) << spec;
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      std::ranges::copy(from[i].values, to[i].values.begin());
    }
    const torch::Tensor g = some_gradients();
    give(first, g);
    give(second, g);
    a->step(kLr, 1, {0, kCount});
    b->step(kLr, 1, {0, kCount});
    EXPECT_TRUE(same_bits(weights_of(first), weights_of(second))) << spec;
  }
}

TEST(Optimiser, PlainSgdRemembersNothing) {
  Flat flat(kCount);
  EXPECT_TRUE(make_optimiser(optimiser_options("sgd"), flat.model)->state().empty());
}

TEST(Optimiser, WrongSettingsAreToldApart) {
  EXPECT_THAT([] { optimiser_options("sdg"); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'sgd'?")));
  EXPECT_THAT([] { optimiser_options("sgd:momentun=0.9"); },
              ThrowsMessage<UsageError>(HasSubstr("did you mean 'momentum'?")));
  EXPECT_THAT([] { optimiser_options("adam:beta1=1"); },
              ThrowsMessage<UsageError>(HasSubstr("beta1 of 'adam' is 1")));
  EXPECT_THAT([] { optimiser_options("sgd:lr=-1"); },
              ThrowsMessage<UsageError>(HasSubstr("lr of 'sgd' is -1")));
  EXPECT_THAT([] { optimiser_options("sgd:nesterov=on"); },
              ThrowsMessage<UsageError>(HasSubstr("momentum above 0")));
}

TEST(Optimiser, DefaultsOfTheRowHold) {
  EXPECT_EQ(optimiser_options("adam").number("lr"), 0.001);
  EXPECT_EQ(optimiser_options("adam:lr=0.1").number("lr"), 0.1);
}

}  // namespace
}  // namespace lockstep
