// The parameters of a network as two flat runs of numbers, weights and gradients, that the network
// computes in: backward adds into the one, and what is written to the other is what the next
// forward uses. Nothing is copied on the way.
#pragma once

#include <span>

#include "core/replica.h"
#include "replica/network.h"

namespace lockstep {

// As they lie in a flat model, side by side without padding. Neighbours whose names differ after
// the last dot alone, as fc.weight and fc.bias do, are of one layer.
std::vector<Parameter> laid_out(std::span<const NamedTensor>);

class FlatModel {
 public:
  // Moves the parameters into `weights`, with their values, side by side without padding, and
  // their gradients, zero, into `gradients`. Both are the caller's: parameter_count() floats each,
  // aligned to 64 bytes, and alive as long as the network is used. The network must outlive this.
  // UsageError as check_trainable().
  FlatModel(Network&, Bytes weights, Bytes gradients);
  // The same of a network known by its parameters alone (see trained()): no statistics.
  FlatModel(std::span<const NamedTensor> parameters, Bytes weights, Bytes gradients);

  std::size_t count() const { return count_; }
  float* weights() const { return weights_; }
  float* gradients() const { return gradients_; }
  // Side by side, in order, all of them.
  std::span<const Parameter> parameters() const { return parameters_; }
  // The tensors that view the two runs, in the same order.
  std::span<const torch::Tensor> tensors() const { return tensors_; }
  // Which parameter the number at `index` belongs to. REQUIRES index < count().
  const std::string& name_at(std::size_t index) const;

  // The network's fp32 buffers (batch-norm statistics) as one run, copied out and back in, bit by
  // bit: so that workers, who keep their own, can average them for evaluation.
  std::vector<float> statistics() const;
  void set_statistics(std::span<const float>);  // InternalError unless as long as statistics()

 private:
  std::size_t count_ = 0;
  float* weights_;
  float* gradients_;
  std::vector<Parameter> parameters_;
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> buffers_;
};

}  // namespace lockstep
