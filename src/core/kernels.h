// The loops over numbers, compiled once per instruction set and chosen when the program starts.
// All sets give the same bits: contraction is off, so each element is the IEEE operations written
// down.
#pragma once

#include "core/values.h"

namespace lockstep {

// What a kernel knows that joins one of several operands, as the state of its Combine.
struct Joining {
  const std::byte* own = nullptr;  // element 0 of the values that the others join
  std::byte* beside = nullptr;     // element 0 of what is kept meanwhile, in fp32
  int ranks = 0;                   // what a mean is divided by
};

// fp16 and bf16: the sum is kept beside in fp32 until the last operand joins.
struct Beside {
  Combine::Function first, next;  // write beside, and leave the values as they are
  Combine::Function sum, mean;    // the last: write the values
};

// Joins several buffers element by element, in their order and as the kernels below would, and
// writes the result into all of them: each cache line is fetched once.
using Everywhere = void (*)(std::byte* const* buffers, std::size_t bytes);
inline constexpr int kMostFused = 4;  // buffers

// One step of stochastic gradient descent in one pass over memory. For each element, every product
// is fused into the sum that follows it, as LibTorch's kernels do:
//   d = g + weight_decay * w            where weight_decay != 0
//   m = keep * m + take * d             where there is momentum
//   d = d + look_ahead * m, or d = m    with look_ahead != 0 (Nesterov), or without
//   w = w + minus_lr * d,  g = 0
struct SgdRule {
  float minus_lr = 0;
  float weight_decay = 0;
  float keep = 0, take = 1;
  float look_ahead = 0;
};

// `momentum` is null where there is none. The three runs do not overlap. Gradients are left zero,
// so that the next backward, which adds, needs no pass of its own.
using SgdKernel = void (*)(const SgdRule&, float* weights, float* gradients, float* momentum,
                           std::size_t count);

struct Kernels {
  const char* instruction_set;
  Combine::Function add[6], min[6], max[6];  // by kernel_row()
  Combine::Function mean[6];                 // adds the last operand and divides by Joining::ranks
  Beside beside[6];                          // of fp16 and bf16
  // The last operand of a mean of fp32 whose operands have all been added here, one after the
  // other. It is added in fp64. Where the sum before is that of as many copies of it, the mean is
  // the last operand: m equal ones come back to the bit, and what that mends is no more than sums
  // may be off.
  Combine::Function mean_of_all;
  // Of fp32: the sum of (own - x), kept beside.
  Combine::Function first_distance, next_distance;
  Everywhere add_everywhere[6][kMostFused + 1];  // by kernel_row() and number of buffers, from 2
  Everywhere mean_everywhere[6][kMostFused + 1];
  void (*scale[6])(void* v, std::size_t count, double factor);
  bool (*finite)(const float* v, std::size_t count);  // neither NaN nor infinity among them
  SgdKernel sgd;
};

// The widest set this processor has.
const Kernels& kernels();
// Every set this processor has, baseline first: tests compare them bit by bit.
std::size_t kernel_sets(const Kernels* out[3]);

}  // namespace lockstep
