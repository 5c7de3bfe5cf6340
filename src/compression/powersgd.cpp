// PowerSGD: see low_rank.h, which does it.
#include "compression/registry.h"

namespace lockstep {

Compression powersgd_compression(const Options& options) {
  Compression c;
  c.averaging = Averaging::low_rank;
  c.low_rank = {static_cast<int>(between(options, "rank", 1, 1024)),
                above_zero(options, "saving", 1e9),
                static_cast<std::uint64_t>(between(options, "start", 0, INT64_MAX))};
  // What is left out is the part of the matrix that P does not span.
  c.squared_error = [](std::size_t) { return 1; };
  c.memories = 1;
  return c;
}

}  // namespace lockstep
