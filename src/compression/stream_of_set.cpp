// Compiled once per instruction set, with LOCKSTEP_SET naming it (core/kernels.cmake): writes past
// the caches, as wide as the set has them.
#include <algorithm>
#include <cstring>

#include "compression/of_set.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace lockstep::LOCKSTEP_SET {
namespace {

constexpr std::size_t kLine = 64;

#if defined(__AVX512F__)
inline void stream_line(const char* from, char* to) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__AVX__)
inline void stream_line(const char* from, char* to) {
  for (std::size_t i = 0; i < kLine; i += sizeof(__m256i))
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
}
#elif defined(__SSE2__)
inline void stream_line(const char* from, char* to) {
  for (std::size_t i = 0; i < kLine; i += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
}
#else
inline void stream_line(const char* from, char* to) { std::memcpy(to, from, kLine); }
#endif

}  // namespace

void stream(const char* from, char* to, std::size_t bytes) {
  std::size_t i = std::min(-reinterpret_cast<std::uintptr_t>(to) % kLine, bytes);
  std::memcpy(to, from, i);
  for (; i + kLine <= bytes; i += kLine) stream_line(from + i, to + i);
  std::memcpy(to + i, from + i, bytes - i);
}

void end_stream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace lockstep::LOCKSTEP_SET
