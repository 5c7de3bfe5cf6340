// Small networks for the tests of replica/, and the memory to flatten them into.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "core/zero_pages.h"
#include "replica/flat_model.h"
#include "replica/network.h"

namespace lockstep {

// Convolution, batch norm, and a dense layer.
struct ConvNet : torch::nn::Module {
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(3));
  torch::nn::Linear dense = register_module("dense", torch::nn::Linear(3 * 4 * 4, 5));
  torch::Tensor forward(const torch::Tensor& x) {
    return dense(torch::relu(norm(conv(x))).flatten(1));
  }
};

// One matrix in two places, and one used twice in one place.
struct TiedNet : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(36, 7));
  torch::nn::Linear twice = register_module("twice", torch::nn::Linear(7, 7));
  torch::Tensor same = register_parameter("same", twice->weight);
  torch::nn::Linear out = register_module("out", torch::nn::Linear(7, 5));
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::relu(twice(twice(in(x.flatten(1))))).matmul(same));
  }
};

struct Batch {
  torch::Tensor x = torch::randn({8, 1, 6, 6});
  torch::Tensor y = torch::randint(5, {8}, torch::kLong);
};

inline torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(output, y);
}

// A flattened network with its memory.
struct Flat {
  explicit Flat(std::unique_ptr<Network> n)
      : network(std::move(n)),
        weights(4 * parameter_count(*network)),
        gradients(4 * parameter_count(*network)),
        model(*network, weights.bytes(), gradients.bytes()) {}
  explicit Flat(std::int64_t parameters)
      : Flat(network_of(torch::nn::Linear(torch::nn::LinearOptions(parameters, 1).bias(false)))) {}

  std::unique_ptr<Network> network;
  ZeroPages weights, gradients;
  FlatModel model;
};

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

// The file that the network wrote holds its parameters and buffers, bit by bit.
inline void expect_read_back(const Flat& flat, const std::string& path) {
  const Network::Numbers saved = flat.network->read_saved(path);
  const auto weights = flat.weights.floats();
  EXPECT_EQ(saved.parameters, std::vector<float>(weights.begin(), weights.end()));
  EXPECT_EQ(saved.buffers, flat.model.statistics());
  EXPECT_FALSE(saved.buffers.empty());
}

}  // namespace lockstep
