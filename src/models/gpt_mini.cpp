// A small transformer that says after each token which comes next: causal
// self-attention, layers normalised before (as GPT-2 has them, Radford et al.
// 2019). Context is as long as the samples are.
#include <cmath>

#include "core/error.h"
#include "models/layers.h"
#include "replica/blocks.h"

namespace lockstep {
namespace {

using namespace torch::nn;

// Drawn as GPT-2's: what adds to the sum of all layers the less, the more
// layers there are.
Linear dense(std::int64_t in, std::int64_t out, double deviation = 0.02) {
  Linear layer(in, out);
  init::normal_(layer->weight, 0, deviation);
  init::zeros_(layer->bias);
  return layer;
}

struct Sizes {
  std::int64_t context, tokens, layers, heads, width;
  double dropout;
};

class Layer final : public Module {
 public:
  explicit Layer(const Sizes& sizes)
      : heads_(sizes.heads),
        norm1_(register_module("ln1", LayerNorm(LayerNormOptions({sizes.width})))),
        attention_(register_module("attention", dense(sizes.width, 3 * sizes.width))),
        attended_(register_module("attended", dense(sizes.width, sizes.width, small(sizes)))),
        norm2_(register_module("ln2", LayerNorm(LayerNormOptions({sizes.width})))),
        wide_(register_module("wide", dense(sizes.width, 4 * sizes.width))),
        narrow_(register_module("narrow", dense(4 * sizes.width, sizes.width, small(sizes)))),
        dropout_(register_module("dropout", Dropout(sizes.dropout))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x + dropout_(attended_(attend(norm1_(x))));
    return y + dropout_(narrow_(torch::gelu(wide_(norm2_(y)))));
  }

 private:
  static double small(const Sizes& sizes) {
    return 0.02 / std::sqrt(2.0 * static_cast<double>(sizes.layers));
  }

  // [samples, tokens, width], to itself and what is before it.
  torch::Tensor attend(const torch::Tensor& x) {
    const std::int64_t tokens = x.size(1), width = x.size(2);
    const auto all = attention_(x).chunk(3, 2);
    const auto by_head = [&](const torch::Tensor& t) {
      return t.reshape({t.size(0), tokens, heads_, width / heads_}).transpose(1, 2);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads_));
    const torch::Tensor later = torch::ones({tokens, tokens}, torch::kBool).triu(1);
    torch::Tensor weights = by_head(all[0]).matmul(by_head(all[1]).transpose(2, 3)) * scale;
    weights = weights.masked_fill(later, -std::numeric_limits<float>::infinity()).softmax(3);
    return dropout_(weights).matmul(by_head(all[2])).transpose(1, 2).reshape(x.sizes());
  }

  std::int64_t heads_;
  LayerNorm norm1_;
  Linear attention_, attended_;
  LayerNorm norm2_;
  Linear wide_, narrow_;
  Dropout dropout_;
};

std::unique_ptr<Network> make(const Sizes& sizes) {
  const auto net = std::make_shared<Module>();
  const auto embedding = net->register_module("embedding", Embedding(sizes.tokens, sizes.width));
  const auto position = net->register_module("position", Embedding(sizes.context, sizes.width));
  const auto dropout = net->register_module("dropout", Dropout(sizes.dropout));
  init::normal_(embedding->weight, 0, 0.02);
  init::normal_(position->weight, 0, 0.02);
  const auto layers = net->register_module("layers", Sequential());
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) layers->push_back(Layer(sizes));
  const auto norm = net->register_module("ln", LayerNorm(LayerNormOptions({sizes.width})));
  const auto head = net->register_module("head", dense(sizes.width, sizes.tokens));

  std::vector<Block> blocks = blocks_of(*layers, "layers.");
  blocks.insert(
      blocks.begin(),
      block_of("embedding", {embedding, position, dropout}, [=](const torch::Tensor& tokens) {
        return dropout->forward(embedding->forward(tokens) +
                                position->forward(torch::arange(tokens.size(1))));
      }));
  blocks.push_back(block_of("head", {norm, head}, [=](const torch::Tensor& x) {
    return head->forward(norm->forward(x)).transpose(1, 2).contiguous();
  }));
  return network_of_blocks(net, std::move(blocks));
}

}  // namespace

std::unique_ptr<Network> make_gpt_mini(const Options& options, const ModelInput& input) {
  const Sizes sizes{input.shape.at(0),         input.classes,
                    options.integer("layers"), options.integer("heads"),
                    options.integer("width"),  dropout_of(options, "dropout")};
  if (sizes.layers < 1 || sizes.heads < 1 || sizes.width < 1 || sizes.width % sizes.heads != 0)
    throw UsageError(
        fmt::format("gpt-mini:layers={},heads={},width={}: give "
                    "at least 1 of each, and a width that "
                    "is a multiple of the heads",
                    sizes.layers, sizes.heads, sizes.width));
  return make(sizes);
}

}  // namespace lockstep
