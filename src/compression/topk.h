// The k numbers with the largest magnitudes, k = ceil(ratio N): of the whole vector, or of each
// chunk of it, which costs less and treats layers of different scales more alike. 8 k bytes.
#pragma once

#include <memory>

#include "compression/compressor.h"

namespace lockstep {

// How many of `count` numbers are sent. With chunk 0 they are one chunk.
std::size_t top_count(double ratio, std::size_t chunk, std::size_t count);
std::unique_ptr<Compressor> make_topk(double ratio, std::size_t chunk);

}  // namespace lockstep
