// Compiled once per instruction set, with LOCKSTEP_SET naming it (kernels.cmake).
// fp16 and bf16 are widened to fp32, joined, and rounded to nearest even.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

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

// What is kept of values of type T while more of them join.
template <class T>
using Kept = std::conditional_t<std::is_same_v<T, double>, double,
                                std::conditional_t<std::is_integral_v<T>, T, float>>;
template <class T>
constexpr bool kIsNarrow = sizeof(T) == 2;

// What the sums of a mean are divided by.
struct Divisor {
  explicit Divisor(int n) : ranks(n), share(1.0 / n) {}
  int ranks;
  double share;
};

// To fp32 a product in fp64 is as good as a quotient, and faster. fp64 has nothing wider.
template <class W>
inline W quotient(double sum, const Divisor& by) {
  if constexpr (std::is_same_v<W, float>)
    return static_cast<float>(sum * by.share);
  else
    return sum / by.ranks;
}

// Integers go to the nearest; where two are as near, away from zero.
template <class T>
inline T divided(Kept<T> sum, const Divisor& by) {
  if constexpr (std::is_integral_v<T>) {
    const T rest = sum % by.ranks, left = rest < 0 ? -rest : rest;
    return sum / by.ranks + (left < by.ranks - left ? 0 : sum < 0 ? -1 : 1);
  } else {
    return narrow<T>(quotient<Kept<T>>(sum, by));
  }
}

// The sum of all operands but the last in fp32, and the last one.
inline float mean_with_last(float sum, float last, const Divisor& by) {
  return quotient<float>(double(sum) + double(last), by);
}

template <class T, class Join>
void fold(void* into, const void* from, std::size_t bytes, const void*) {
  T* __restrict a = static_cast<T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) a[i] = narrow<T>(Join::join(widen(a[i]), widen(b[i])));
}

template <class T>
void fold_mean(void* into, const void* from, std::size_t bytes, const void* state) {
  T* __restrict a = static_cast<T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  const std::size_t count = bytes / sizeof(T);
  const Divisor by(static_cast<const Joining*>(state)->ranks);
  for (std::size_t i = 0; i < count; ++i)
    a[i] = divided<T>(Add::join(widen(a[i]), widen(b[i])), by);
}

// One operand of several, with what is kept beside: the first, then others, then the last.
template <class T>
inline Kept<T> kept_of(T own, T from) {
  if constexpr (kIsNarrow<T>)
    return widen(own) + widen(from);
  else
    return own - from;
}
template <class T>
inline Kept<T> kept_with(Kept<T> kept, T own, T from) {
  return kIsNarrow<T> ? kept + widen(from) : kept + (widen(own) - widen(from));
}
template <class T, bool kMean>
inline T total_of(Kept<T> kept, const Divisor& by) {
  if constexpr (kMean)
    return divided<T>(kept, by);
  else
    return narrow<T>(kept);
}

constexpr std::size_t kBlock = 512;  // elements, in the first cache

template <class T>
Kept<T>* beside(const Joining& joining, const void* into) {
  const auto at = static_cast<const std::byte*>(into) - joining.own;
  return reinterpret_cast<Kept<T>*>(joining.beside) + at / static_cast<std::ptrdiff_t>(sizeof(T));
}

template <class T>
void join_first(void* into, const void* from, std::size_t bytes, const void* state) {
  const T* __restrict own = static_cast<const T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  Kept<T>* __restrict kept = beside<T>(*static_cast<const Joining*>(state), into);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) kept[i] = kept_of(own[i], b[i]);
}

template <class T>
void join_next(void* into, const void* from, std::size_t bytes, const void* state) {
  const T* __restrict own = static_cast<const T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  Kept<T>* __restrict kept = beside<T>(*static_cast<const Joining*>(state), into);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) kept[i] = kept_with(kept[i], own[i], b[i]);
}

template <class T, bool kMean>
void join_last(void* into, const void* from, std::size_t bytes, const void* state) {
  const Joining& joining = *static_cast<const Joining*>(state);
  T* __restrict own = static_cast<T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  const Kept<T>* __restrict kept = beside<T>(joining, into);
  const std::size_t count = bytes / sizeof(T);
  const Divisor by(joining.ranks);
  for (std::size_t i = 0; i < count; ++i)
    own[i] = total_of<T, kMean>(kept_with(kept[i], own[i], b[i]), by);
}

// Could some of these sums be of so many copies of x? Told from a quotient that is off by less than
// the slack, which is cheaper than to add them up. Zeros need no help.
bool maybe_of_copies(const float* sum, const float* x, std::size_t count, int copies) {
  const float share = 1.f / static_cast<float>(copies);
  const float slack = 0x1p-23f * static_cast<float>(copies + 1);
  std::int32_t near = 0;
  for (std::size_t i = 0; i < count; ++i)
    near |= std::abs(sum[i] * share - x[i]) < slack * std::abs(x[i]);
  return near != 0;
}

// The last operand of a mean in fp32, see Kernels::mean_of_all.
void join_last_of_all(void* into, const void* from, std::size_t bytes, const void* state) {
  const int ranks = static_cast<const Joining*>(state)->ranks;
  const Divisor by(ranks);
  const std::size_t count = bytes / sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    float* __restrict own = static_cast<float*>(into) + begin;
    const float* __restrict x = static_cast<const float*>(from) + begin;
    // The sum of up to four equal ones is rounded so little that with the fifth the mean is right.
    if (ranks <= 5 || !maybe_of_copies(own, x, size, ranks - 1)) {
      for (std::size_t i = 0; i < size; ++i) own[i] = mean_with_last(own[i], x[i], by);
      continue;
    }
    float copies[kBlock];
    std::copy_n(x, size, copies);
    for (int k = 2; k < ranks; ++k)
      for (std::size_t i = 0; i < size; ++i) copies[i] += x[i];
    for (std::size_t i = 0; i < size; ++i) {
      const float mean = mean_with_last(own[i], x[i], by);
      // An infinite sum minus itself is not zero; and zeros differ in their sign.
      own[i] = own[i] - copies[i] == 0 && x[i] != 0 ? x[i] : mean;
    }
  }
}

template <class T>
void multiply(void* values, std::size_t count, double factor) {
  T* v = static_cast<T*>(values);
  if constexpr (std::is_same_v<T, float>)
    if (const float same = static_cast<float>(factor); same == factor) {
      for (std::size_t i = 0; i < count; ++i) v[i] *= same;  // the same bits, and faster
      return;
    }
  for (std::size_t i = 0; i < count; ++i)
    v[i] = narrow<T>(static_cast<double>(widen(v[i])) * factor);
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

// Element i of all buffers, joined in their order.
template <class T, int kBuffers, bool kMean>
inline T joined(T* const* at, std::size_t i, const Divisor& by) {
  if constexpr (kMean && std::is_same_v<T, float> && kBuffers == 3) {
    return mean_with_last(at[0][i] + at[1][i], at[2][i], by);
  } else {
    Kept<T> sum = widen(at[0][i]);
    for (int b = 1; b < kBuffers; ++b) sum = Add::join(sum, Kept<T>(widen(at[b][i])));
    if constexpr (kMean && std::is_same_v<T, float>)
      return sum * (1.f / kBuffers);  // which is exact
    return total_of<T, kMean>(sum, by);
  }
}

template <class T, int kBuffers, bool kMean>
void everywhere(std::byte* const* buffers, std::size_t bytes) {
  T* at[kBuffers];
  for (int b = 0; b < kBuffers; ++b) at[b] = reinterpret_cast<T*>(buffers[b]);
  const std::size_t count = bytes / sizeof(T);
  const Divisor by(kBuffers);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const T result = joined<T, kBuffers, kMean>(at, i, by);
    for (int b = 0; b < kBuffers; ++b) at[b][i] = result;
  }
}

enum class Momentum { none, plain, nesterov };

template <bool kDecay, Momentum kMomentum>
void step(const SgdRule& rule, float* __restrict w, float* __restrict g, float* __restrict m,
          std::size_t count) {
  const SgdRule r = rule;
  for (std::size_t i = 0; i < count; ++i) {
    float d = g[i];
    if constexpr (kDecay) d = __builtin_fmaf(r.weight_decay, w[i], d);
    if constexpr (kMomentum != Momentum::none) {
      const float kept = r.keep * m[i];
      const float v = m[i] = __builtin_fmaf(r.take, d, kept);
      d = kMomentum == Momentum::plain ? v : __builtin_fmaf(r.look_ahead, v, d);
    }
    w[i] = __builtin_fmaf(r.minus_lr, d, w[i]);
    g[i] = 0;
  }
}

template <Momentum kMomentum>
void with_decay_or_not(const SgdRule& rule, float* w, float* g, float* m, std::size_t count) {
  (rule.weight_decay != 0 ? step<true, kMomentum> : step<false, kMomentum>)(rule, w, g, m, count);
}

void sgd(const SgdRule& rule, float* w, float* g, float* m, std::size_t count) {
  if (m == nullptr)
    with_decay_or_not<Momentum::none>(rule, w, g, m, count);
  else if (rule.look_ahead == 0)
    with_decay_or_not<Momentum::plain>(rule, w, g, m, count);
  else
    with_decay_or_not<Momentum::nesterov>(rule, w, g, m, count);
}

template <class T>
constexpr void fill(Kernels& kernels, int type) {
  kernels.add[type] = fold<T, Add>;
  kernels.min[type] = fold<T, Min>;
  kernels.max[type] = fold<T, Max>;
  kernels.mean[type] = fold_mean<T>;
  kernels.scale[type] = multiply<T>;
  if constexpr (kIsNarrow<T>)
    kernels.beside[type] = {join_first<T>, join_next<T>, join_last<T, false>, join_last<T, true>};
  Everywhere(&sums)[kMostFused + 1] = kernels.add_everywhere[type];
  sums[2] = everywhere<T, 2, false>;
  sums[3] = everywhere<T, 3, false>;
  sums[4] = everywhere<T, 4, false>;
  Everywhere(&means)[kMostFused + 1] = kernels.mean_everywhere[type];
  means[2] = everywhere<T, 2, true>;
  means[3] = everywhere<T, 3, true>;
  means[4] = everywhere<T, 4, true>;
}

constexpr Kernels make() {
  Kernels k{};
#define LOCKSTEP_TEXT_(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_(x)
  k.instruction_set = LOCKSTEP_TEXT(LOCKSTEP_SET);
  fill<float>(k, 0);
  fill<double>(k, 1);
  fill<_Float16>(k, 2);
  fill<Bf16>(k, 3);
  fill<std::int32_t>(k, 4);
  fill<std::int64_t>(k, 5);
  k.mean_of_all = join_last_of_all;
  k.first_distance = join_first<float>;
  k.next_distance = join_next<float>;
  k.finite = all_finite;
  k.sgd = sgd;
  return k;
}

}  // namespace

#define LOCKSTEP_JOIN_(a, b) a##b
#define LOCKSTEP_JOIN(a, b) LOCKSTEP_JOIN_(a, b)
extern const Kernels LOCKSTEP_JOIN(kernels_, LOCKSTEP_SET);
const Kernels LOCKSTEP_JOIN(kernels_, LOCKSTEP_SET) = make();

}  // namespace lockstep
