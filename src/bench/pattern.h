// Small whole numbers that every type holds exactly, so that a sum is right or wrong and never
// "close": element i is slope * (i mod kPeriod) + base.
#pragma once

#include "core/values.h"

namespace lockstep::bench {

struct Pattern {
  int slope = 1;
  int base = 1;
};

inline constexpr int kPeriod = 5;
constexpr int element(Pattern p, std::size_t i) {
  return p.slope * static_cast<int>(i % kPeriod) + p.base;
}

// What rank r contributes, and what the sum over ranks 0..n-1 then is.
Pattern contribution(int rank);
Pattern sum_of_contributions(int ranks);
// The most ranks whose sums, whole and partial, this type still holds exactly.
int most_ranks(Type);

// Both pass over hollow bytes. REQUIRES: whole elements. The first one is element `first` of the
// pattern.
void fill(Bytes, Type, Pattern);
std::size_t count_wrong(ConstBytes, Type, Pattern, std::size_t first = 0);

}  // namespace lockstep::bench
