// IEEE half precision. What is beyond 65504 becomes infinite, which a run notices: a scale below 1
// makes room for large gradients, and one above 1 keeps small ones from being rounded to zero. A
// power of two rounds nothing itself. An all-reduce sends sums of up to m ranks' numbers, which are
// divided at the end, so that equal ones come back as they were: numbers beyond 65504 / m may need
// the scale 1 / m.
#include "compression/narrow.h"
#include "compression/registry.h"

namespace lockstep {

Compression fp16_compression(const Options& options) {
  Compression c =
      narrow_compression(Type::fp16, static_cast<float>(above_zero(options, "scale", 1 << 24)));
  if (options.flag("feedback")) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
