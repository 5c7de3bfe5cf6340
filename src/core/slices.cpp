#include "core/slices.h"

#include <algorithm>

namespace lockstep {

Slice chunk(std::size_t count, int m, int c) { return chunks(count, m, c, 1); }

Slice chunks(std::size_t count, int m, int first, int many) {
  const std::size_t base = count / m, longer = count % m;
  const auto begin_of = [&](std::size_t c) { return c * base + std::min(c, longer); };
  const std::size_t begin = begin_of(first);
  return {begin, begin_of(static_cast<std::size_t>(first) + many) - begin};
}

std::vector<Slice> pieces(Slice whole, std::size_t most) {
  std::vector<Slice> cut;
  for (std::size_t at = whole.begin; at < whole.end(); at += most)
    cut.push_back({at, std::min(most, whole.end() - at)});
  return cut;
}

}  // namespace lockstep
