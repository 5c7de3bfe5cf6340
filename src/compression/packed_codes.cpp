#include "compression/packed_codes.h"

namespace lockstep {

void pack_rest(const std::uint8_t* codes, std::size_t count, int bits, std::uint8_t* packed) {
  std::uint32_t waiting = 0;
  int held = 0;
  for (std::size_t i = 0; i < count; ++i) {
    waiting |= std::uint32_t(codes[i]) << held;
    for (held += bits; held >= 8; held -= 8, waiting >>= 8)
      *packed++ = static_cast<std::uint8_t>(waiting);
  }
  if (held > 0) *packed = static_cast<std::uint8_t>(waiting);
}

void unpack_rest(const std::uint8_t* packed, std::size_t count, int bits, std::uint8_t* codes) {
  std::uint32_t waiting = 0;
  int held = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (held < bits) {
      waiting |= std::uint32_t(*packed++) << held;
      held += 8;
    }
    codes[i] = static_cast<std::uint8_t>(waiting & ((1u << bits) - 1));
    waiting >>= bits;
    held -= bits;
  }
}

}  // namespace lockstep
