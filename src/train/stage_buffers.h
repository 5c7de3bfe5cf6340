// What batch norm has seen at a stage of a pipeline: the fp32 buffers of its blocks.
#pragma once

#include <cstring>

#include "replica/network.h"

namespace lockstep {

// They are the network's own as long as one replica has the stage; where two have it, each has its
// own, and the network holds those of the replica whose turn it is. Copied as bytes: autograd may
// have saved these tensors, and must not see them change.
class StageBuffers {
 public:
  StageBuffers(std::vector<NamedTensor> buffers, int replicas) : buffers_(std::move(buffers)) {
    copies_.assign(replicas > 1 ? replicas : 0, read());
  }

  std::vector<float> read() const {
    std::vector<float> all;
    for (const auto& [name, tensor] : buffers_) {
      const auto* first = tensor.data_ptr<float>();
      all.insert(all.end(), first, first + tensor.numel());
    }
    return all;
  }
  void write(std::span<const float> all) const {
    const float* from = all.data();
    for (const auto& [name, tensor] : buffers_) {
      std::memcpy(tensor.data_ptr(), from, tensor.nbytes());
      from += tensor.numel();
    }
  }

  void take_turn(int replica) {
    if (copies_.empty() || replica == turn_) return;
    keep();
    write(copies_[turn_ = replica]);
  }
  // For tests, until it is a replica's turn again.
  void take_mean() {
    if (copies_.empty() || turn_ == kMean) return;
    keep();
    write(mean_of(copies_));
    turn_ = kMean;
  }

  // Of all replicas that have the stage, one after another.
  std::vector<float> all() {
    if (copies_.empty()) return read();
    keep();
    std::vector<float> all;
    for (const auto& one : copies_) all.insert(all.end(), one.begin(), one.end());
    return all;
  }
  // REQUIRES: as many as all() returns.
  void set(std::span<const float> all) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const auto part = all.subspan(i * copies_[i].size(), copies_[i].size());
      copies_[i].assign(part.begin(), part.end());
    }
    turn_ = 0;
    write(all);  // the first replica's
  }

  static std::vector<float> mean_of(std::span<const std::vector<float>> copies) {
    std::vector<float> mean(copies.front().size());
    for (const auto& one : copies)
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += one[i] / static_cast<float>(copies.size());
    return mean;
  }

 private:
  static constexpr int kMean = -1;
  void keep() {
    if (turn_ != kMean) copies_[turn_] = read();
  }

  std::vector<NamedTensor> buffers_;
  int turn_ = 0;                            // of a replica, or kMean
  std::vector<std::vector<float>> copies_;  // by replica; the network has newer ones of its turn
};

}  // namespace lockstep
