// How a buffer is cut. Pure arithmetic on element indices.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep {

struct Slice {
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t end() const { return begin + count; }
  bool operator==(const Slice&) const = default;
};

// Chunk c of m: floor(count/m) elements, and one more for the first count mod m chunks.
// REQUIRES: 0 <= c < m.
Slice chunk(std::size_t count, int m, int c);
// Chunks first..first+many-1, which lie side by side, as one slice.
Slice chunks(std::size_t count, int m, int first, int many);
// Pieces of at most `most` elements (the last may be shorter), offset into `whole`.
std::vector<Slice> pieces(Slice whole, std::size_t most);

}  // namespace lockstep
