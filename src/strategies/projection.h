// Many numbers as a few that a linear map commutes with: their sums under two shared random
// patterns of signs, and the sum of their squares. What is true of vectors is then checked on three
// doubles a vector.
#pragma once

#include <cstdint>

#include "core/values.h"

namespace lockstep {

inline constexpr int kProjections = 2;

struct Projection {
  double along[kProjections] = {};
  double square = 0;

  Projection& operator+=(const Projection& other) {
    for (int i = 0; i < kProjections; ++i) along[i] += other.along[i];
    square += other.square;
    return *this;
  }
  bool operator==(const Projection&) const = default;
};

// Of those elements of fp32 values; the signs depend on `seed` and the element's index alone, so
// parts add up to the whole. One pass, no memory; the same bits for the same numbers and part.
// REQUIRES: not hollow.
Projection project(Values, Slice part, std::uint64_t seed);

}  // namespace lockstep
