// A replica whose optimiser is watched: by audits, and by the clock of steps.
#pragma once

#include <functional>

#include "core/replica.h"

namespace lockstep {

class WatchedReplica final : public Replica {
 public:
  // Called right before and right after the optimiser steps that part, by that share.
  using Look = std::function<void(Slice part, double share)>;
  // `inner` outlives it.
  WatchedReplica(Replica& inner, Look before, Look after)
      : inner_(inner), before_(std::move(before)), after_(std::move(after)) {}

  Values weights() override { return inner_.weights(); }
  Values gradients() override { return inner_.gradients(); }
  std::span<const Parameter> parameters() const override { return inner_.parameters(); }
  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t step, Slice part, std::uint64_t updates,
                       double share) override {
    before_(part, share);
    inner_.apply_gradients(step, part, updates, share);
    after_(part, share);
  }
  double learning_rate(std::uint64_t step) const override { return inner_.learning_rate(step); }
  void forget() override { inner_.forget(); }
  bool needs_whole_layers() const override { return inner_.needs_whole_layers(); }

 private:
  Replica& inner_;
  const Look before_, after_;
};

}  // namespace lockstep
