// PowerSGD (Vogels et al., NeurIPS 2019): a gradient that is a matrix M, n x q, goes as the product
// of P, n x r, and the transpose of Q, q x r. Two all-reduces of r (n + q) numbers in all take the
// place of one of n q. One power iteration a step, from the Q of the step before; M is the gradient
// plus what was left out before (error feedback). A step on every rank:
//
//   left() of the gradients     M = gradients + error, P = M Q
//   mean of left() over ranks   the caller's all-reduce
//   right()                     P made orthonormal, Q = M^T P, error = M - P Q^T of this rank
//   mean of right() over ranks  the caller's all-reduce
//   finish()                    gradients = P Q^T
//
// Tensors that are no matrices, or that would shrink too little, go as they are at the end of
// left(). Given the same means every rank ends with the same bits. The mean of errors plus the
// result is the mean of all M, up to rounding. A NaN or infinity in a matrix makes the whole result
// NaN.
//
// Not a Compressor: no rank's message stands for its own numbers. One thread.
#pragma once

#include <span>
#include <vector>

#include "compression/compression.h"

namespace lockstep {

// A tensor, where it lies in the gradients. One dimension: columns is 1.
struct Tensor2d {
  std::size_t begin = 0, rows = 0, columns = 1;
  std::size_t count() const { return rows * columns; }
};

class LowRank {
 public:
  // `tensors` lie one after the other and are all of the gradients. `error`, the caller's, has as
  // many numbers, zeros at first, and is part of a checkpoint; where it is hollow all is. The first
  // Q is drawn from `seed`, the same on all ranks.
  LowRank(const LowRankRule&, std::span<const Tensor2d> tensors, Values error, std::uint64_t seed);

  // fp32, to be averaged. Valid as long as this is.
  Values left(Values gradients);
  Values right();
  void finish(Values gradients);

  // All Q, which the next step starts from: part of a checkpoint.
  Values kept();

 private:
  // A matrix that is compressed; `left` and `right` say where its r columns of P and Q begin.
  struct Factored {
    Tensor2d tensor;
    std::size_t rank, left, right;
  };

  void check(Values gradients) const;
  void orthonormalise(const Factored&);

  std::vector<Factored> factored_;
  std::vector<Tensor2d> whole_;  // those that go as they are, after all P
  std::size_t count_ = 0, left_count_ = 0, right_count_ = 0;
  const Values error_;
  std::vector<float> left_, right_;  // columns lie one after the other
};

}  // namespace lockstep
