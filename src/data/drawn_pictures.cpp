// Generated photographs of nothing: something to learn for machines that have no image folder. A
// class is the direction, width and colour of stripes; light, position, noise and things in front
// of them vary.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "data/picture.h"

namespace lockstep {
namespace {

using Colour = std::array<float, 3>;

// hue in turns.
Colour colour_of(double hue, double light) {
  Colour colour;
  for (int c = 0; c < 3; ++c)
    colour[c] = static_cast<float>(light * (128 + 127 * std::cos(2 * M_PI * (hue - c / 3.))));
  return colour;
}

struct Disc {
  double x, y, radius;  // in parts of the picture
  Colour colour;
};

// Numbers spread evenly over [0, 1) however many labels there are, in three directions at once.
double spread(int label, double step) { return std::fmod((label + 1) * step, 1.); }

}  // namespace

Picture draw_picture(std::uint64_t seed, int label, std::uint32_t index, int width, int height) {
  Rng rng(seed, static_cast<int>(index), purpose_of("picture") + static_cast<std::uint64_t>(label));
  // A quarter turn only: mirroring a picture must not make another class of it.
  const double angle = M_PI / 2 * spread(label, .8191725134) + .06 * rng.normal();
  const double waves = (3 + 9 * spread(label, .6710436067)) * (1 + .05 * rng.normal());
  const double hue = spread(label, .5497004779) + .02 * rng.normal(),
               light = .6 + .4 * rng.uniform();
  const Colour bright = colour_of(hue, light),
               dark = colour_of(hue + .1 * rng.normal(), light * .4);
  const double phase = 2 * M_PI * rng.uniform();
  const bool mirrored = rng.below(2) == 1;
  std::array<Disc, 3> discs;
  for (Disc& disc : discs)
    disc = {rng.uniform(), rng.uniform(), .05 + .1 * rng.uniform(),
            colour_of(rng.uniform(), rng.uniform())};
  const double across = 2 * M_PI * waves * std::cos(angle) * (mirrored ? -1 : 1);
  const double down = 2 * M_PI * waves * std::sin(angle);
  Picture picture{width, height, std::vector<std::uint8_t>(std::size_t(width) * height * 3)};
  auto* out = picture.rgb.data();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double u = double(x) / width, v = double(y) / height;
      const auto share = static_cast<float>(.5 + .5 * std::sin(across * u + down * v + phase));
      const auto noise = static_cast<float>(rng() >> 59);  // 0 to 31
      const Disc* front = nullptr;
      for (const Disc& disc : discs)
        if (std::hypot(u - disc.x, v - disc.y) < disc.radius) front = &disc;
      for (int c = 0; c < 3; ++c) {
        const float value = front ? front->colour[c] : dark[c] + share * (bright[c] - dark[c]);
        *out++ = static_cast<std::uint8_t>(std::clamp(value + noise - 16, 0.f, 255.f));
      }
    }
  return picture;
}

}  // namespace lockstep
