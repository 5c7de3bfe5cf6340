#include "data/dataset.h"

#include <algorithm>

namespace lockstep {

std::size_t values_in(const Shape& shape) {
  std::size_t values = 1;
  for (std::int64_t extent : shape) values *= static_cast<std::size_t>(extent);
  return values;
}

void Dataset::keep_first(std::size_t most) {
  facts_.labels.resize(std::min(most, facts_.labels.size()));
}

}  // namespace lockstep
