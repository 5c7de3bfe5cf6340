#include "data/picture_crop.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

// Two neighbouring pixels and how much the second counts.
struct Between {
  int first, second;
  float weight;
};

std::vector<Between> places(double begin, double length, int side, int extent, bool mirror) {
  std::vector<Between> places(side);
  for (int i = 0; i < side; ++i) {
    const double at = std::clamp(begin + (i + .5) * length / side - .5, 0., extent - 1.);
    const int first = static_cast<int>(at);
    places[mirror ? side - 1 - i : i] = {first, std::min(first + 1, extent - 1),
                                         static_cast<float>(at - first)};
  }
  return places;
}

float of_channel(const std::vector<float>& numbers, int channel) {
  return numbers[numbers.size() == 1 ? 0 : channel];
}

}  // namespace

Crop random_crop(int width, int height, Rng& rng) {
  const bool mirror = rng.below(2) == 1;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = (.08 + .92 * rng.uniform()) * width * height;
    const double ratio = std::exp(std::log(4. / 3) * (2 * rng.uniform() - 1));
    const double w = std::sqrt(area * ratio), h = std::sqrt(area / ratio);
    if (w > width || h > height) continue;
    return {rng.uniform() * (width - w), rng.uniform() * (height - h), w, h, mirror};
  }
  Crop crop = centre_crop(width, height);
  crop.mirror = mirror;
  return crop;
}

Crop centre_crop(int width, int height) {
  const double side = std::min(width, height) * 7 / 8.;
  return {(width - side) / 2, (height - side) / 2, side, side, false};
}

int shrink_for(const Crop& crop, int side) {
  int shrink = 8;
  while (shrink > 1 && std::min(crop.width, crop.height) < double{1} * side * shrink) shrink /= 2;
  return shrink;
}

void resample(const Picture& picture, int shrink, const Crop& crop, int side, const Normal& normal,
              float* x) {
  const auto columns =
      places(crop.left / shrink, crop.width / shrink, side, picture.width, crop.mirror);
  const auto rows = places(crop.top / shrink, crop.height / shrink, side, picture.height, false);
  float scale[3], shift[3];
  for (int c = 0; c < 3; ++c) {
    scale[c] = 1 / (normal.unit * of_channel(normal.deviation, c));
    shift[c] = -of_channel(normal.mean, c) / of_channel(normal.deviation, c);
  }
  const std::size_t plane = std::size_t(side) * side;
  for (int i = 0; i < side; ++i) {
    const auto row_at = [&](int y) { return &picture.rgb[std::size_t(y) * picture.width * 3]; };
    const std::uint8_t *above = row_at(rows[i].first), *below = row_at(rows[i].second);
    for (int j = 0; j < side; ++j, ++x) {
      const Between& column = columns[j];
      for (int c = 0; c < 3; ++c) {
        const int left = column.first * 3 + c, right = column.second * 3 + c;
        const float up = above[left] + column.weight * (above[right] - above[left]);
        const float down = below[left] + column.weight * (below[right] - below[left]);
        x[c * plane] = (up + rows[i].weight * (down - up)) * scale[c] + shift[c];
      }
    }
  }
}

}  // namespace lockstep
