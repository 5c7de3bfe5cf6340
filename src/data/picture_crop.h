// Which part of a picture is used, and how it becomes numbers.
#pragma once

#include "core/rng.h"
#include "data/array_dataset.h"
#include "data/jpeg.h"

namespace lockstep {

struct Crop {
  double left = 0, top = 0, width = 0, height = 0;  // in pixels of the whole picture
  bool mirror = false;
};

// In training: a part of 8 to 100 % of the area, of 3:4 to 4:3, anywhere; every other one mirrored.
Crop random_crop(int width, int height, Rng&);
// In tests: the square in the middle, seven eighths of the short side (224 of 256).
Crop centre_crop(int width, int height);

// The most a picture may be shrunk while it is decoded, so that the crop still has `side` pixels.
int shrink_for(const Crop&, int side);
// Writes the crop as side x side numbers for red, then green, then blue, between pixels linearly.
// `picture` is the whole divided by `shrink`. REQUIRES: normal has one or three means and
// deviations.
void resample(const Picture& picture, int shrink, const Crop&, int side, const Normal& normal,
              float* x);

}  // namespace lockstep
