// Codes of 1 to 8 bits, one for each number, as they lie in a message: full blocks of kPacked codes
// as CodeKernels::pack leaves them, then the others bit after bit, the lowest first. N codes of b
// bits take ceil(N b / 8) bytes.
#pragma once

#include <algorithm>
#include <span>

#include "compression/streamed.h"

namespace lockstep {

inline std::size_t packed_bytes(std::size_t count, int bits) {
  return count / 8 * static_cast<std::size_t>(bits) +
         (count % 8 * static_cast<std::size_t>(bits) + 7) / 8;
}

// Calls do_run(begin, count, bucket) for the runs that one bucket and the numbers
// begin..begin+count have in common.
template <class DoRun>
void for_each_run(std::size_t begin, std::size_t count, std::size_t bucket, DoRun do_run) {
  for (std::size_t at = begin, end = begin + count; at < end;) {
    const std::size_t n = std::min(end - at, bucket - at % bucket);
    do_run(at, n, at / bucket);
    at += n;
  }
}

// The codes of less than a block.
void pack_rest(const std::uint8_t* codes, std::size_t count, int bits, std::uint8_t* packed);
void unpack_rest(const std::uint8_t* packed, std::size_t count, int bits, std::uint8_t* codes);

// Block by block: make(begin, count, codes) writes the codes of so many numbers from `begin` on.
template <class Make>
void write_codes(std::size_t count, int bits, std::uint8_t* packed, Make make) {
  // Bytes are packed as they are.
  if (bits == 8) return Streamed<std::uint8_t>({packed, count}).write_all(make);
  std::uint8_t codes[kPacked];
  for (std::size_t begin = 0; begin < count; begin += kPacked) {
    const std::size_t n = std::min(kPacked, count - begin);
    make(begin, n, codes);
    if (n == kPacked)
      code_kernels().pack[bits](codes, packed);
    else
      pack_rest(codes, n, bits, packed);
    packed += packed_bytes(n, bits);
  }
}

// Block by block: take(begin, count, codes, where) makes so many numbers from `begin` on of their
// codes, and replaces those that are there, or adds to them.
template <class Take>
void read_codes(const std::uint8_t* packed, int bits, std::span<float> into, bool replaces,
                Take take) {
  Streamed<float> out(into, replaces);
  std::uint8_t unpacked[kPacked];
  for (std::size_t begin = 0; begin < into.size(); begin += kPacked) {
    const std::size_t n = std::min(kPacked, into.size() - begin);
    const std::uint8_t* codes = bits == 8 ? packed : unpacked;
    if (bits < 8 && n == kPacked)
      code_kernels().unpack[bits](packed, unpacked);
    else if (bits < 8)
      unpack_rest(packed, n, bits, unpacked);
    out.write(begin, n, [&](float* where) { take(begin, n, codes, where); });
    packed += packed_bytes(n, bits);
  }
}

}  // namespace lockstep
