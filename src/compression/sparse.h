// Some of the numbers and where they are: the message of topk, threshold and dgc. k indices, then k
// numbers, each of 4 bytes, in ascending order of indices; k is an eighth of the message's length.
// Others decode to zero.
#pragma once

#include "compression/compressor.h"

namespace lockstep {

inline constexpr std::size_t kPair = sizeof(std::uint32_t) + sizeof(float);

class Sparse : public Compressor {
 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw&) override;
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override;

  // Writes the indices of what is to be sent, ascending, and returns how many. There is room for
  // most_bytes().
  virtual std::size_t choose(std::span<const float> numbers, const Draw&,
                             std::uint32_t* indices) = 0;
};

// The indices of such a message, which was encoded here.
std::span<const std::uint32_t> indices_in(ConstBytes message);

}  // namespace lockstep
