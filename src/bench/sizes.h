// The sizes a benchmark goes through. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::bench {

// first, first*factor, … and last, all rounded down to whole elements, without repeats.
// UsageError if there is no such list.
std::vector<std::size_t> sizes_between(std::size_t first, std::size_t last, int factor,
                                       std::size_t element_bytes);

}  // namespace lockstep::bench
