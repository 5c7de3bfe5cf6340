// A replica without a network: weights and gradients as plain memory (in a window of all ranks, or
// not) or hollow, and SGD with momentum. What was consumed is poisoned, so that nobody relies on
// it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/replica.h"
#include "transport/transport.h"

namespace lockstep::testing {

enum class Memory { plain, window, hollow };

class ToyReplica final : public Replica {
 public:
  // `peers` is used for a window only.
  ToyReplica(Transport* peers, Memory memory, std::size_t count, float rate, float momentum = 0)
      : count_(count), rate_(rate), momentum_(momentum) {
    for (std::size_t at = 0; at < count; at += kRow * kRows)
      parameters_.push_back(parameter_at(at, std::min(kRow * kRows, count - at)));
    if (memory == Memory::hollow) return;
    plain_.resize(memory == Memory::plain ? 2 * count : 0);
    if (memory == Memory::window)
      window_ = peers->open_window(std::max<std::size_t>(1, 2 * count) * sizeof(float));
    base_ = window_ ? reinterpret_cast<float*>(window_->mine().data) : plain_.data();
    velocity_.resize(count);
  }

  Values weights() override { return at(0); }
  Values gradients() override { return at(count_); }
  std::span<const Parameter> parameters() const override { return parameters_; }
  std::span<float> weight_span() { return {base_, base_ ? count_ : 0}; }
  std::span<float> gradient_span() { return {base_ + (base_ ? count_ : 0), base_ ? count_ : 0}; }

  using Replica::apply_gradients;
  void apply_gradients(std::uint64_t, Slice part, std::uint64_t updates, double share) override {
    updates_.push_back(updates);
    if (!base_) return;
    if (share != 1) scale(gradients().part(part), share);
    for (std::size_t i = part.begin; i < part.end(); ++i) {
      float& g = gradient_span()[i];
      velocity_[i] = std::fma(momentum_, velocity_[i], g);
      base_[i] = std::fma(-rate_, velocity_[i], base_[i]);
      g = std::numeric_limits<float>::quiet_NaN();
    }
  }
  double learning_rate(std::uint64_t) const override { return rate_; }
  void forget() override { std::ranges::fill(velocity_, 0.f); }
  // What apply_gradients() was told, call by call.
  const std::vector<std::uint64_t>& updates() const { return updates_; }

 private:
  // Matrices of 3 x 4, as far as they go; what is left is a bias of the last of them.
  static constexpr std::size_t kRows = 3, kRow = 4;
  static Parameter parameter_at(std::size_t begin, std::size_t count) {
    const int layer = static_cast<int>(begin / (kRow * kRows));
    if (count == kRow * kRows) return {"weight", {begin, count}, {kRows, kRow}, layer};
    return {"bias", {begin, count}, {static_cast<std::int64_t>(count)}, std::max(0, layer - 1)};
  }
  Values at(std::size_t offset) {
    return base_ ? Values(base_ + offset, count_, Type::fp32) : Values::hollow(count_, Type::fp32);
  }

  const std::size_t count_;
  std::vector<Parameter> parameters_;
  const float rate_, momentum_;
  std::vector<float> plain_, velocity_;
  std::vector<std::uint64_t> updates_;
  std::unique_ptr<Window> window_;
  float* base_ = nullptr;
};

}  // namespace lockstep::testing
