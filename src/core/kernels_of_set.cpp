// Compiled once per instruction set, with LOCKSTEP_SET naming it (kernels.cmake).
// fp16 and bf16 are widened to fp32, joined, and rounded to nearest even.
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/kernels.h"

namespace lockstep {
namespace {

struct Bf16 {
  std::uint16_t bits;
};

inline float widen(_Float16 x) { return static_cast<float>(x); }
inline float widen(Bf16 x) { return std::bit_cast<float>(std::uint32_t(x.bits) << 16); }
template <class T>
T widen(T x) {
  return x;
}

template <class T, class W>
inline T narrow(W x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    const std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    const bool nan = (u & 0x7fffffff) > 0x7f800000;
    return {static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40 : rounded)};
  } else {
    return static_cast<T>(x);
  }
}

// Integers wrap around instead of overflowing into undefined behaviour.
struct Add {
  template <class W>
  static W join(W a, W b) {
    if constexpr (std::is_integral_v<W>)
      return static_cast<W>(std::make_unsigned_t<W>(a) + std::make_unsigned_t<W>(b));
    else
      return a + b;
  }
};
struct Min {
  template <class W>
  static W join(W a, W b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class W>
  static W join(W a, W b) {
    return a < b ? b : a;
  }
};

template <class T, class Join>
void fold(void* into, const void* from, std::size_t bytes) {
  T* __restrict a = static_cast<T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) a[i] = narrow<T>(Join::join(widen(a[i]), widen(b[i])));
}

template <class T>
inline T times(T v, double factor) {
  if constexpr (std::is_same_v<T, float>)
    return v * static_cast<float>(factor);
  else
    return narrow<T>(static_cast<double>(widen(v)) * factor);
}

template <class T>
void multiply(void* values, std::size_t count, double factor) {
  T* v = static_cast<T*>(values);
  for (std::size_t i = 0; i < count; ++i) v[i] = times(v[i], factor);
}

// The largest magnitude, as bits: from the exponent of all ones on they are not finite.
bool all_finite(const float* v, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(v[i]) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest < 0x7f800000;
}

template <class T, int kBuffers, bool kScaled>
void add_to_all(std::byte* const* buffers, std::size_t bytes, double factor) {
  T* at[kBuffers];
  for (int b = 0; b < kBuffers; ++b) at[b] = reinterpret_cast<T*>(buffers[b]);
  const std::size_t count = bytes / sizeof(T);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    T sum = at[0][i];
    for (int b = 1; b < kBuffers; ++b) sum = narrow<T>(Add::join(widen(sum), widen(at[b][i])));
    if constexpr (kScaled) sum = times(sum, factor);
    for (int b = 0; b < kBuffers; ++b) at[b][i] = sum;
  }
}

template <class T, int kBuffers>
void add_everywhere(std::byte* const* buffers, std::size_t bytes, double factor) {
  if (factor == 1)
    add_to_all<T, kBuffers, false>(buffers, bytes, factor);
  else
    add_to_all<T, kBuffers, true>(buffers, bytes, factor);
}

template <class T>
constexpr void fill_everywhere(FoldEverywhere (&row)[kMostFused + 1]) {
  row[2] = add_everywhere<T, 2>;
  row[3] = add_everywhere<T, 3>;
  row[4] = add_everywhere<T, 4>;
}

template <class Join>
constexpr void fill(Combine (&row)[6]) {
  row[0] = fold<float, Join>;
  row[1] = fold<double, Join>;
  row[2] = fold<_Float16, Join>;
  row[3] = fold<Bf16, Join>;
  row[4] = fold<std::int32_t, Join>;
  row[5] = fold<std::int64_t, Join>;
}

}  // namespace

#define LOCKSTEP_JOIN_(a, b) a##b
#define LOCKSTEP_JOIN(a, b) LOCKSTEP_JOIN_(a, b)
void LOCKSTEP_JOIN(sgd_, LOCKSTEP_SET)(const SgdRule&, float*, float*, float*, std::size_t);

namespace {

constexpr Kernels make() {
  Kernels k{};
#define LOCKSTEP_TEXT_(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_(x)
  k.instruction_set = LOCKSTEP_TEXT(LOCKSTEP_SET);
  fill<Add>(k.add);
  fill<Min>(k.min);
  fill<Max>(k.max);
  fill_everywhere<float>(k.add_everywhere[0]);
  fill_everywhere<double>(k.add_everywhere[1]);
  fill_everywhere<_Float16>(k.add_everywhere[2]);
  fill_everywhere<Bf16>(k.add_everywhere[3]);
  fill_everywhere<std::int32_t>(k.add_everywhere[4]);
  fill_everywhere<std::int64_t>(k.add_everywhere[5]);
  k.scale[0] = multiply<float>;
  k.scale[1] = multiply<double>;
  k.scale[2] = multiply<_Float16>;
  k.scale[3] = multiply<Bf16>;
  k.scale[4] = multiply<std::int32_t>;
  k.scale[5] = multiply<std::int64_t>;
  k.finite = all_finite;
  k.sgd = LOCKSTEP_JOIN(sgd_, LOCKSTEP_SET);
  return k;
}

}  // namespace

extern const Kernels LOCKSTEP_JOIN(kernels_, LOCKSTEP_SET);
const Kernels LOCKSTEP_JOIN(kernels_, LOCKSTEP_SET) = make();

}  // namespace lockstep
