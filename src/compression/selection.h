// The k largest magnitudes of many numbers, exactly k of them; of equal ones those with the lowest
// indices. NaN counts as larger than infinity. Takes time linear in the count, whatever the numbers
// are. One thread; room to work in is kept between calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

class Selection {
 public:
  // Writes k indices, each plus `first`, ascending. REQUIRES: k <= numbers.size().
  void top(std::span<const float> numbers, std::size_t k, std::uint32_t first,
           std::uint32_t* indices);

 private:
  // A magnitude that some more than k numbers reach, as bits, by a sample; 0 if that is of no help.
  std::uint32_t guess(std::span<const float> numbers, std::size_t k);

  std::vector<std::uint32_t> sample_, candidates_, keys_;  // keys: magnitudes of candidates
};

}  // namespace lockstep
