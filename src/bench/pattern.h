// Small whole numbers that every type holds exactly, so that a sum is right or wrong and never
// "close": element i is slope * (i mod 5) + base.
#pragma once

#include "core/values.h"

namespace lockstep::bench {

struct Pattern {
  int slope = 1;
  int base = 1;
};

// What rank r contributes, and what the sum over ranks 0..n-1 then is.
Pattern contribution(int rank);
Pattern sum_of_contributions(int ranks);
// The most ranks whose sums, whole and partial, this type still holds exactly.
int most_ranks(Type);

// Both pass over hollow bytes. REQUIRES: whole elements.
void fill(Bytes, Type, Pattern);
std::size_t count_wrong(ConstBytes, Type, Pattern);

}  // namespace lockstep::bench
