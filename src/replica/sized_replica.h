// A replica of sizes alone, for simulations in which only times and bytes matter: a network of any
// size on any number of workers takes no memory.
#pragma once

#include "core/replica.h"

namespace lockstep {

class SizedReplica final : public Replica {
 public:
  explicit SizedReplica(std::vector<Parameter> parameters, bool whole_layers = false)
      : parameters_(std::move(parameters)), whole_layers_(whole_layers) {}

  Values weights() override { return Values::hollow(count(), Type::fp32); }
  Values gradients() override { return Values::hollow(count(), Type::fp32); }
  std::span<const Parameter> parameters() const override { return parameters_; }
  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t, Slice, std::uint64_t, double) override {}
  double learning_rate(std::uint64_t) const override { return 1; }
  void forget() override {}
  bool needs_whole_layers() const override { return whole_layers_; }

 private:
  std::size_t count() const { return parameters_.empty() ? 0 : parameters_.back().slice.end(); }

  const std::vector<Parameter> parameters_;
  const bool whole_layers_;
};

}  // namespace lockstep
