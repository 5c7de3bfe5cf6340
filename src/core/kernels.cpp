#include "core/kernels.h"

namespace lockstep {

extern const Kernels kernels_baseline;
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;

std::size_t kernel_sets(const Kernels* out[3]) {
  std::size_t n = 0;
  out[n++] = &kernels_baseline;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    out[n++] = &kernels_avx2;
  if (n == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    out[n++] = &kernels_avx512;
  return n;
}

const Kernels& kernels() {
  static const Kernels& widest = [&]() -> const Kernels& {
    const Kernels* sets[3];
    return *sets[kernel_sets(sets) - 1];
  }();
  return widest;
}

}  // namespace lockstep
