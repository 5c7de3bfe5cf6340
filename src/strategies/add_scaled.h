// y += a x, the step that most rules for weights are made of.
#pragma once

#include "core/error.h"
#include "core/values.h"

namespace lockstep {

// into[i] += factor * from[i], computed in fp64 and rounded once. Nothing happens when either side
// is hollow. REQUIRES: fp32, equal counts.
inline void add_scaled(Values into, double factor, Values from) {
  if (into.count() != from.count() || into.type() != Type::fp32 || from.type() != Type::fp32)
    throw InternalError(fmt::format("adding {} {} values to {} {} ones", from.count(),
                                    name_of(from.type()), into.count(), name_of(into.type())));
  if (into.is_hollow() || from.is_hollow()) return;
  float* const y = reinterpret_cast<float*>(into.bytes().data);
  const float* const x = reinterpret_cast<const float*>(from.bytes().data);
  for (std::size_t i = 0; i < into.count(); ++i)
    y[i] = static_cast<float>(static_cast<double>(y[i]) + factor * static_cast<double>(x[i]));
}

}  // namespace lockstep
