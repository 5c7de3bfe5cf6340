// Compiled once per instruction set, with LOCKSTEP_SET naming it (core/kernels.cmake). Of a
// register full of numbers the indices of the large ones are moved to the front and stored with
// what lies behind them; the next store overwrites that. Where few numbers are large most registers
// have none.
#include <bit>

#include "compression/of_set.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace lockstep::LOCKSTEP_SET {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kWidth = 16;

inline std::uint32_t large_ones(const float* v, std::uint32_t least) {
  const __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(v), _mm512_set1_epi32(0x7fffffff));
  return _mm512_cmpge_epu32_mask(magnitude, _mm512_set1_epi32(static_cast<int>(least)));
}
inline void store_indices(std::uint32_t mask, std::uint32_t first, std::uint32_t* into) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(first)));
  _mm512_storeu_si512(into, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), indices));
}
#elif defined(__AVX2__)
constexpr std::size_t kWidth = 8;

inline std::uint32_t large_ones(const float* v, std::uint32_t least) {
  const __m256i magnitude = _mm256_and_si256(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(v)), _mm256_set1_epi32(0x7fffffff));
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(least)), magnitude);
  return static_cast<std::uint8_t>(~_mm256_movemask_ps(_mm256_castsi256_ps(small)));
}

// For each mask the numbers of its bits, 3 bits each, the lowest first.
struct Places {
  constexpr Places() {
    for (std::uint32_t mask = 0; mask < 256; ++mask) {
      int n = 0;
      for (std::uint32_t bit = 0; bit < 8; ++bit)
        if (mask >> bit & 1) of[mask] |= bit << 3 * n++;
    }
  }
  std::uint32_t of[256] = {};
};
constexpr Places kPlaces;

inline void store_indices(std::uint32_t mask, std::uint32_t first, std::uint32_t* into) {
  const __m256i shifts = _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21);
  const __m256i packed = _mm256_set1_epi32(static_cast<int>(kPlaces.of[mask]));
  const __m256i lanes = _mm256_and_si256(_mm256_srlv_epi32(packed, shifts), _mm256_set1_epi32(7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(into),
                      _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(first))));
}
#else
constexpr std::size_t kWidth = 1;

inline std::uint32_t large_ones(const float* v, std::uint32_t least) {
  return (std::bit_cast<std::uint32_t>(*v) & 0x7fffffff) >= least;
}
inline void store_indices(std::uint32_t, std::uint32_t first, std::uint32_t* into) {
  *into = first;
}
#endif

}  // namespace

std::size_t above(const float* v, std::size_t count, std::uint32_t least, std::uint32_t first,
                  std::uint32_t* indices, std::size_t room) {
  std::size_t found = 0, i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const std::uint32_t mask = large_ones(v + i, least);
    if (mask == 0) continue;
    if (found < room) store_indices(mask, first + static_cast<std::uint32_t>(i), indices + found);
    found += static_cast<std::size_t>(std::popcount(mask));
  }
  for (; i < count; ++i) {
    if ((std::bit_cast<std::uint32_t>(v[i]) & 0x7fffffff) < least) continue;
    if (found < room) indices[found] = first + static_cast<std::uint32_t>(i);
    ++found;
  }
  return found;
}

}  // namespace lockstep::LOCKSTEP_SET
