// How well a class for each pixel was answered. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

// Dice of one image: of a class, twice what answer and mask have in common over what they have of
// it together; in the mean over the classes that either has, but for 0, the background. 1 if there
// is none. REQUIRES: both of one length, and each number from 0 to below `classes`.
double dice_of(std::span<const std::int64_t> answer, std::span<const std::int64_t> mask,
               std::size_t classes);

// Intersection over union, from counts of pixels by class: what was rightly answered over what is
// of the class or was taken for it; in the mean over the classes of which there is one or the
// other, background among them (as Everingham et al. 2010 score segmentations).
double mean_iou(std::span<const double> correct, std::span<const double> pixels,
                std::span<const double> answers);

}  // namespace lockstep
