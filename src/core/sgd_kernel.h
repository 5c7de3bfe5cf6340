// One step of stochastic gradient descent in one pass over memory. Compiled once per instruction
// set; take it from kernels().
#pragma once

#include <cstddef>

namespace lockstep {

// For each element, every product fused into the sum that follows it, as LibTorch's kernels do:
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

}  // namespace lockstep
