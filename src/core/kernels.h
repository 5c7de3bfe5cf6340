// The loops over numbers, compiled once per instruction set and chosen when the program starts.
// All sets give the same bits: contraction is off, so each element is the IEEE operations written
// down.
#pragma once

#include "core/sgd_kernel.h"
#include "core/values.h"

namespace lockstep {

// Folds several buffers element by element, in their order, multiplies by `factor` unless it is 1,
// and writes the result into all of them: each cache line is fetched once.
using FoldEverywhere = void (*)(std::byte* const* buffers, std::size_t bytes, double factor);
inline constexpr int kMostFused = 4;  // buffers

struct Kernels {
  const char* instruction_set;
  Combine add[6], min[6], max[6];                    // by Type
  FoldEverywhere add_everywhere[6][kMostFused + 1];  // by Type and number of buffers, from 2
  void (*scale[6])(void* v, std::size_t count, double factor);
  bool (*finite)(const float* v, std::size_t count);  // neither NaN nor infinity among them
  SgdKernel sgd;
};

// The widest set this processor has.
const Kernels& kernels();
// Every set this processor has, baseline first: tests compare them bit by bit.
std::size_t kernel_sets(const Kernels* out[3]);

}  // namespace lockstep
