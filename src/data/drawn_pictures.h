// Generated photographs of nothing: something to learn for machines that have no image folder. A
// class is the direction, width and colour of stripes; light, position, noise and things in front
// of them vary.
#pragma once

#include "data/picture.h"

namespace lockstep {

// The same (seed, label, index) gives the same picture. REQUIRES: label >= 0.
Picture draw_picture(std::uint64_t seed, int label, std::uint32_t index, int width, int height);

}  // namespace lockstep
