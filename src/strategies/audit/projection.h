// Many numbers as a few that a linear map commutes with: their sums under two shared random
// patterns of signs, and the sum of their squares. What is true of vectors is then checked on three
// doubles a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

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
// `first`: the index of the values' first element, where they are themselves a part.
// REQUIRES: not hollow.
Projection project(Values, Slice part, std::uint64_t seed, std::size_t first = 0);

// One vector of a mix.
struct Term {
  double factor;
  Projection of;
};
// Of their sum; its square is that of the sum's largest norm.
Projection sum_of(std::span<const Term>);
// Is `found`, of `count` elements, that sum of fp32 vectors? Else says what it is and should be.
// Tolerance: a sum of k terms f·x computed in fp32 is off by at most (k+2)·2^-24·sum|f|·|x| in
// norm, and a random pattern of signs exceeds 8 times the norm of what it is applied to with a
// probability below 3e-14. So an alarm is no accident, and what it can miss is as small as
// rounding. The sum may be off besides: by `loses` times sum|f|·|x|, and by a norm of `and_norm`.
std::optional<std::string> mismatch(const Projection& found, std::span<const Term> mix,
                                    std::size_t count, double loses = 0, double and_norm = 0);

}  // namespace lockstep
