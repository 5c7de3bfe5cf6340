#include "bench/sizes.h"

#include "core/error.h"

namespace lockstep::bench {

std::vector<std::size_t> sizes_between(std::size_t first, std::size_t last, int factor,
                                       std::size_t element_bytes) {
  if (first < element_bytes)
    throw UsageError(
        fmt::format("-b must be at least one element ({} bytes), not {}", element_bytes, first));
  if (first > last)
    throw UsageError(
        fmt::format("-b must not be larger than -e, but {} bytes is more than {}", first, last));
  std::vector<std::size_t> sizes;
  const auto add = [&](std::size_t size) {
    size -= size % element_bytes;
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  };
  for (std::size_t size = first;; size *= factor) {
    add(size);
    if (size > last / factor) break;  // before it can overflow
  }
  add(last);
  return sizes;
}

}  // namespace lockstep::bench
