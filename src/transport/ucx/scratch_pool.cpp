#include "transport/ucx/scratch_pool.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// A pool that has lent out more buffers at once than this lets the smallest go.
constexpr std::size_t kKept = 16;

}  // namespace

PoolBlock ScratchPool::take(std::size_t bytes) {
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const PoolBlock& s) { return s.capacity >= bytes; });
  if (fits == free_.end()) return {std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes};
  PoolBlock taken = std::move(*fits);
  free_.erase(fits);
  return taken;
}

void ScratchPool::give_back(PoolBlock&& scratch) {
  const auto place = std::find_if(free_.begin(), free_.end(), [&](const PoolBlock& s) {
    return s.capacity >= scratch.capacity;
  });
  free_.insert(place, std::move(scratch));  // ascending, so that take() finds the best fit
  if (free_.size() > kKept) free_.erase(free_.begin());
}

}  // namespace lockstep
