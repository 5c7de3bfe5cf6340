// The total of several operands that come together at one rank, in a fixed order: the values that
// are there, then others. What a rank does with them depends on their type:
//
// - fp16 and bf16 are added up in fp32, and rounded when the last one has joined.
// - All else is folded operand by operand. For a mean the last of all ranks' fp32 values is added
//   and divided in fp64 (two or four are divided exactly in fp32), and what rounding did to the sum
//   of equal operands is undone: m equal vectors come back to the bit. Where sums are exact, as
//   those of small integers, a mean has the bits that any other order gives.
//
// A mean is divided once, where the total is complete, and rounded once by that; of integers it is
// the nearest, halves away from zero.
#pragma once

#include <memory>
#include <span>

#include "core/kernels.h"
#include "core/values.h"

namespace lockstep {

class Total {
 public:
  // Of `operands` operands, the first of which is `own`. `ranks`: with the last one the total is
  // complete, over so many ranks; 0: it is a part that goes on to another rank.
  Total(Values own, int operands, int ranks);
  // distances[i] = sum over k of own[i] - x_k[i], of any number of others; `own` is left alone.
  // REQUIRES: fp32, equal counts.
  Total(Values own, Values distances);

  // How operand k = 1, 2, … joins, after the one before it: all of it, or some elements at a time.
  // It goes into `own`, which holds the total when the last one has joined and nothing of use till
  // then. Valid as long as this is. Null if the values are hollow.
  Combine joining(int k) const;

 private:
  friend void join_all(Values, std::span<std::byte* const>, int, bool);

  // The kernels of the first operand, of those after it, and of the last; and whether a number in
  // fp32 is kept beside each element meanwhile.
  struct Way {
    Combine::Function first, next, last;
    bool beside = false;
    Combine::Function of(int k, int operands) const {
      return k == operands - 1 ? last : k == 1 ? first : next;
    }
  };
  static Way way_of(Values own, int operands, int ranks);

  const int operands_;
  const Way way_;
  std::unique_ptr<std::byte[]> beside_;
  Joining state_;
};

// `own` becomes the total of itself and `others`, which are as long, with the bits of a Total. If
// `everywhere`, all of them do.
void join_all(Values own, std::span<std::byte* const> others, int ranks, bool everywhere = false);

}  // namespace lockstep
