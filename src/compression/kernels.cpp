#include "compression/kernels.h"

#include "core/kernels.h"

namespace lockstep {

namespace baseline {
extern const CodeKernels code_kernels;
}
namespace avx2 {
extern const CodeKernels code_kernels;
}
namespace avx512 {
extern const CodeKernels code_kernels;
}

// Core knows what this processor has: both are compiled for the same sets.
std::size_t code_kernel_sets(const CodeKernels* out[3]) {
  const Kernels* sets[3];
  const std::size_t n = kernel_sets(sets);
  const CodeKernels* all[3] = {&baseline::code_kernels, &avx2::code_kernels, &avx512::code_kernels};
  for (std::size_t i = 0; i < n; ++i) out[i] = all[i];
  return n;
}

const CodeKernels& code_kernels() {
  static const CodeKernels& widest = []() -> const CodeKernels& {
    const CodeKernels* sets[3];
    return *sets[code_kernel_sets(sets) - 1];
  }();
  return widest;
}

}  // namespace lockstep
