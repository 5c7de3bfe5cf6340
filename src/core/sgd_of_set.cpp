// Compiled once per instruction set, with LOCKSTEP_SET naming it (kernels.cmake).
#include "core/kernels.h"

namespace lockstep {
namespace {

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

}  // namespace

#define LOCKSTEP_NAME_(set) sgd_##set
#define LOCKSTEP_NAME(set) LOCKSTEP_NAME_(set)
void LOCKSTEP_NAME(LOCKSTEP_SET)(const SgdRule& rule, float* w, float* g, float* m,
                                 std::size_t count) {
  if (m == nullptr)
    with_decay_or_not<Momentum::none>(rule, w, g, m, count);
  else if (rule.look_ahead == 0)
    with_decay_or_not<Momentum::plain>(rule, w, g, m, count);
  else
    with_decay_or_not<Momentum::nesterov>(rule, w, g, m, count);
}

}  // namespace lockstep
