// Numbers as whole multiples of a unit: the message of int8, qsgd and terngrad. For `bucket`
// numbers at a time it has a scale in fp32, all scales first, and then for each number a code: a
// level from -levels to levels, plus levels, packed to as few bits as that takes. A number decodes
// to level * scale / levels.
//
//   bytes for N numbers: 4 ceil(N / bucket) + ceil(N b / 8),  b = ceil(log2(2 levels + 1))
//
// A bucket whose scale is below kLeastScale is sent as zeros.
#pragma once

#include <memory>

#include "compression/compressor.h"

namespace lockstep {

inline constexpr float kLeastScale = 0x1p-100f;  // so that levels / scale is a number

struct LevelsRule {
  enum class Scale { largest, norm };  // largest magnitude, or Euclidean norm, of a bucket

  int levels = 127;        // 1 to 127
  std::size_t bucket = 0;  // numbers under one scale; 0: all
  Scale scale = Scale::largest;
  bool stochastic = false;  // rounds up with the probability of the fraction: unbiased
  // Magnitudes beyond so many standard deviations of a bucket count as just that; 0: none does.
  double clip = 0;
};

std::unique_ptr<Compressor> make_levels(const LevelsRule&);

}  // namespace lockstep
