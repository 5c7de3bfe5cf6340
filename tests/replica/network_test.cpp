#include "replica/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "folder.h"
#include "replica/networks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Network, OtherTypesThanFp32AreRefusedByName) {
  auto net = std::make_shared<ConvNet>();
  net->dense->to(torch::kDouble);
  const auto network = network_of(net);
  EXPECT_THAT([&] { check_trainable(*network); },
              ThrowsMessage<UsageError>(HasSubstr("'dense.weight' is of type Double")));
}

TEST(Network, NothingToTrainIsRefused) {
  const auto network = network_of(torch::nn::Flatten());
  EXPECT_THAT([&] { check_trainable(*network); },
              ThrowsMessage<UsageError>(HasSubstr("no parameters to train")));
}

TEST(Network, ParametersThatShareMemoryWithoutBeingOneAreRefused) {
  auto net = std::make_shared<ConvNet>();
  net->register_parameter("alias", net->dense->weight.detach());
  EXPECT_THAT([&] { check_trainable(*network_of(net)); },
              ThrowsMessage<UsageError>(HasSubstr("shares memory")));
}

TEST(Network, WhatIsNotTrainedIsNoParameter) {
  auto net = std::make_shared<ConvNet>();
  net->conv->weight.set_requires_grad(false);
  EXPECT_EQ(network_of(net)->parameters().front().name, "norm.weight");
}

// Also where a parameter has come to lie elsewhere than where the replica is written to.
TEST(Network, NumbersAreThoseItComputesWith) {
  auto net = std::make_shared<ConvNet>();
  Flat flat(network_of(net));
  const auto weights = flat.weights.floats();
  EXPECT_EQ(flat.network->numbers().parameters, std::vector<float>(weights.begin(), weights.end()));
  EXPECT_EQ(flat.network->numbers().buffers, flat.model.statistics());
  const torch::NoGradGuard no_grad;
  net->conv->weight.set_data(net->conv->weight.clone());
  for (float& weight : weights) weight = 7;
  EXPECT_NE(flat.network->numbers().parameters, std::vector<float>(weights.size(), 7));
}

TEST(Network, SavesFlatParametersByName) {
  const testing::Folder folder;
  const std::string path = folder / "network.pt";
  auto net = std::make_shared<ConvNet>();
  Flat flat(network_of(net));
  flat.network->forward(Batch().x);
  flat.network->save(path);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_LT(std::filesystem::file_size(path), 100'000u) << "each parameter is written alone";
  auto loaded = std::make_shared<ConvNet>();
  torch::load(loaded, path);
  for (const auto& item : loaded->named_parameters())
    EXPECT_TRUE(same_bits(item.value(), *net->named_parameters().find(item.key()))) << item.key();
  EXPECT_TRUE(same_bits(loaded->norm->running_var, net->norm->running_var));
  expect_read_back(flat, path);
}

}  // namespace
}  // namespace lockstep
