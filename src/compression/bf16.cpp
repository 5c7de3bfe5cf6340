// The upper half of fp32: the same range with 8 significant bits, so that nothing needs scaling.
#include "compression/narrow.h"
#include "compression/registry.h"

namespace lockstep {

Compression bf16_compression(const Options& options) {
  Compression c = narrow_compression(Type::bf16, 1);
  if (options.flag("feedback")) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
