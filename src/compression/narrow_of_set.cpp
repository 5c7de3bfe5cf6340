// Compiled once per instruction set, with LOCKSTEP_SET naming it (core/kernels.cmake): fp32 to fp16
// and bf16 and back. The processor's own instructions where there are any, since GCC 12 does not
// turn loops over fp16 into them; else the same bits by integer arithmetic.
#include <bit>

#include "compression/of_set.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace lockstep::LOCKSTEP_SET {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::uint32_t kHalfOver = 143u << 23;   // 2^16, beyond fp16
constexpr std::uint32_t kHalfUnder = 113u << 23;  // 2^-14, from where on fp16 is normal
constexpr std::uint32_t kHalfOfOne = 126u << 23;  // 0.5, whose last bit is fp16's smallest number

inline std::uint16_t fp16_of(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), sign = bits & 0x80000000;
  const std::uint32_t u = bits ^ sign;
  const std::uint32_t normal = (u - (112u << 23) + 0xfff + ((u >> 13) & 1)) >> 13;
  const std::uint32_t small =  // the addition rounds
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(u < kHalfUnder ? u : 0) + 0.5f) -
      kHalfOfOne;
  const std::uint32_t beyond = u > kInfinity ? 0x7e00 | ((u >> 13) & 0x3ff) : 0x7c00;
  const std::uint32_t h = u >= kHalfOver ? beyond : u < kHalfUnder ? small : normal;
  return static_cast<std::uint16_t>(h | sign >> 16);
}

inline float fp32_of(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000) << 16, u = h & 0x7fff;
  const std::uint32_t quiet = u > 0x7c00 ? 0x400000 : 0;
  const std::uint32_t normal = (u << 13) + (112u << 23);
  const float small = std::bit_cast<float>((u << 13) + kHalfUnder) - 0x1p-14f;
  const std::uint32_t magnitude = u >= 0x7c00 ? (normal + (112u << 23)) | quiet
                                  : u < 0x400 ? std::bit_cast<std::uint32_t>(small)
                                              : normal;
  return std::bit_cast<float>(magnitude | sign);
}

inline std::uint16_t bf16_of(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  const bool nan = (u & 0x7fffffff) > kInfinity;
  return static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40 : rounded);
}

// How many of `count` are done with whole registers. The intrinsics with a mask stand in for those
// without, in whose text GCC 12 finds an uninitialised variable.
#if defined(__AVX512F__)
std::size_t narrow_registers(const float* from, float scale, std::uint16_t* into,
                             std::size_t count) {
  const __m512 by = _mm512_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_mul_ps(_mm512_loadu_ps(from + i), by),
                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return i;
}
template <bool kAdd>
std::size_t widen_registers(const std::uint16_t* from, float factor, float* into,
                            std::size_t count) {
  const __m512 by = _mm512_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    __m512 x = _mm512_mul_ps(_mm512_maskz_cvtph_ps(0xffff, h), by);
    if constexpr (kAdd) x = _mm512_add_ps(_mm512_loadu_ps(into + i), x);
    _mm512_storeu_ps(into + i, x);
  }
  return i;
}
#elif defined(__F16C__)
std::size_t narrow_registers(const float* from, float scale, std::uint16_t* into,
                             std::size_t count) {
  const __m256 by = _mm256_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(into + i),
                     _mm256_cvtps_ph(_mm256_mul_ps(_mm256_loadu_ps(from + i), by),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return i;
}
template <bool kAdd>
std::size_t widen_registers(const std::uint16_t* from, float factor, float* into,
                            std::size_t count) {
  const __m256 by = _mm256_set1_ps(factor);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    __m256 x = _mm256_mul_ps(_mm256_cvtph_ps(h), by);
    if constexpr (kAdd) x = _mm256_add_ps(_mm256_loadu_ps(into + i), x);
    _mm256_storeu_ps(into + i, x);
  }
  return i;
}
#else
std::size_t narrow_registers(const float*, float, std::uint16_t*, std::size_t) { return 0; }
template <bool kAdd>
std::size_t widen_registers(const std::uint16_t*, float, float*, std::size_t) {
  return 0;
}
#endif

template <bool kAdd>
void widen_fp16(const std::uint16_t* __restrict from, float factor, float* __restrict into,
                std::size_t count) {
  for (std::size_t i = widen_registers<kAdd>(from, factor, into, count); i < count; ++i) {
    const float x = fp32_of(from[i]) * factor;
    into[i] = kAdd ? into[i] + x : x;
  }
}

template <bool kAdd>
void widen_bf16(const std::uint16_t* __restrict from, float factor, float* __restrict into,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = std::bit_cast<float>(std::uint32_t(from[i]) << 16) * factor;
    into[i] = kAdd ? into[i] + x : x;
  }
}

}  // namespace

void to_fp16(const float* __restrict from, float scale, std::uint16_t* __restrict into,
             std::size_t count) {
  for (std::size_t i = narrow_registers(from, scale, into, count); i < count; ++i)
    into[i] = fp16_of(from[i] * scale);
}
void to_bf16(const float* __restrict from, float scale, std::uint16_t* __restrict into,
             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] = bf16_of(from[i] * scale);
}
void from_fp16(const std::uint16_t* from, float factor, float* into, std::size_t count) {
  widen_fp16<false>(from, factor, into, count);
}
void add_fp16(const std::uint16_t* from, float factor, float* into, std::size_t count) {
  widen_fp16<true>(from, factor, into, count);
}
void from_bf16(const std::uint16_t* from, float factor, float* into, std::size_t count) {
  widen_bf16<false>(from, factor, into, count);
}
void add_bf16(const std::uint16_t* from, float factor, float* into, std::size_t count) {
  widen_bf16<true>(from, factor, into, count);
}

}  // namespace lockstep::LOCKSTEP_SET
