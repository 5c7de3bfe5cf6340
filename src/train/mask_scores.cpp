#include "train/mask_scores.h"

#include <vector>

namespace lockstep {

double dice_of(std::span<const std::int64_t> answer, std::span<const std::int64_t> mask,
               std::size_t classes) {
  std::vector<double> common(classes), together(classes);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    together[answer[i]] += 1;
    together[mask[i]] += 1;
    if (answer[i] == mask[i]) common[mask[i]] += 1;
  }
  double sum = 0, there = 0;
  for (std::size_t c = 1; c < classes; ++c) {
    if (together[c] == 0) continue;
    sum += 2 * common[c] / together[c];
    there += 1;
  }
  return there > 0 ? sum / there : 1;
}

double mean_iou(std::span<const double> correct, std::span<const double> pixels,
                std::span<const double> answers) {
  double sum = 0, there = 0;
  for (std::size_t c = 0; c < pixels.size(); ++c) {
    const double either = pixels[c] + answers[c] - correct[c];
    if (either == 0) continue;
    sum += correct[c] / either;
    there += 1;
  }
  return there > 0 ? sum / there : 0;
}

}  // namespace lockstep
