#include "replica/flat_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "replica/networks.h"

namespace lockstep {
namespace {

// Trains one network as it is and its twin flattened, with LibTorch's optimiser both.
template <class Net>
void expect_same_bits_flattened() {
  torch::manual_seed(1);
  const auto plain = std::make_shared<Net>();
  torch::manual_seed(1);
  Flat flat(network_of(std::make_shared<Net>()));
  std::vector<torch::Tensor> originals;  // parameters() of LibTorch lists a tied one twice
  for (const auto& [name, tensor] : network_of(plain)->parameters()) originals.push_back(tensor);
  torch::optim::SGD plain_rule(originals, torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<torch::Tensor> views(flat.model.tensors().begin(), flat.model.tensors().end());
  torch::optim::SGD flat_rule(views, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    const Batch batch;
    plain_rule.zero_grad();
    std::ranges::fill(flat.gradients.floats(), 0.0f);
    const auto a = cross_entropy(plain->forward(batch.x), batch.y);
    const auto b = cross_entropy(flat.network->forward(batch.x), batch.y);
    a.backward();
    b.backward();
    EXPECT_TRUE(same_bits(a.detach(), b.detach())) << "loss of step " << step;
    plain_rule.step();
    flat_rule.step();
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Parameter& parameter = flat.model.parameters()[i];
    EXPECT_TRUE(same_bits(originals[i], views[i])) << parameter.name;
    EXPECT_EQ(views[i].grad().data_ptr<float>(),
              flat.gradients.floats().data() + parameter.slice.begin);
    EXPECT_EQ(views[i].data_ptr<float>(), flat.weights.floats().data() + parameter.slice.begin);
  }
}

TEST(FlatModel, ConvolutionsAndBatchNormKeepTheirBits) { expect_same_bits_flattened<ConvNet>(); }

TEST(FlatModel, TiedParametersKeepTheirBits) { expect_same_bits_flattened<TiedNet>(); }

TEST(FlatModel, ParametersLieSideBySideInOrder) {
  Flat flat(network_of(std::make_shared<TiedNet>()));
  std::vector<std::string> names;
  std::size_t at = 0;
  for (const Parameter& parameter : flat.model.parameters()) {
    names.push_back(parameter.name);
    EXPECT_EQ(parameter.slice.begin, at);
    at = parameter.slice.end();
  }
  EXPECT_EQ(at, flat.model.count());
  const Parameter& out = flat.model.parameters()[4];
  EXPECT_EQ(out.shape, flat.model.tensors()[4].sizes().vec());
  EXPECT_THAT(names, ::testing::ElementsAre("same", "in.weight", "in.bias", "twice.bias",
                                            "out.weight", "out.bias"))
      << "the tied one once, under its first name";
}

TEST(FlatModel, AWeightAndItsBiasAreOfOneLayer) {
  Flat flat(network_of(std::make_shared<TiedNet>()));
  std::vector<int> layers;
  for (const Parameter& parameter : flat.model.parameters()) layers.push_back(parameter.layer);
  EXPECT_THAT(layers, ::testing::ElementsAre(0, 1, 1, 2, 3, 3));
}

TEST(FlatModel, NamesWhatANumberBelongsTo) {
  Flat flat(network_of(std::make_shared<ConvNet>()));  // conv 27, norm 3 + 3, dense 240 + 5
  EXPECT_EQ(flat.model.name_at(0), "conv.weight");
  EXPECT_EQ(flat.model.name_at(26), "conv.weight");
  EXPECT_EQ(flat.model.name_at(27), "norm.weight");
  EXPECT_EQ(flat.model.name_at(277), "dense.bias");
}

TEST(FlatModel, StatisticsComeOutAndGoBackIn) {
  Flat flat(network_of(std::make_shared<ConvNet>()));
  flat.network->forward(Batch().x);
  const auto before = flat.model.statistics();
  ASSERT_EQ(before.size(), 6u) << "means and variances, not the count of batches";
  EXPECT_NE(before[0], 0);
  flat.network->forward(Batch().x);
  EXPECT_NE(flat.model.statistics(), before);
  flat.model.set_statistics(before);
  EXPECT_EQ(flat.model.statistics(), before);
  EXPECT_THROW(flat.model.set_statistics({before.data(), 5}), InternalError);
}

}  // namespace
}  // namespace lockstep
