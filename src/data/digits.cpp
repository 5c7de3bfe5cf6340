// digits: generated digit images for machines with no data: strokes as a hand draws them, slanted,
// bent, thick or thin, with noise. Learnable, and not trivially so.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "data/array_dataset.h"
#include "data/open.h"

namespace lockstep {
namespace {

constexpr int kDigitSide = 28;
constexpr std::size_t kDigitPixels = kDigitSide * kDigitSide;

struct Point {
  float x, y;  // in a unit square, y downwards
};

// A piece of a stroke: an arc around (x, y), or, without radius, the point itself.
struct Piece {
  float x, y, radius_x = 0, radius_y = 0, from_degrees = 0, to_degrees = 0;
};
using Stroke = std::vector<Piece>;  // drawn without lifting the pen

const std::vector<Stroke>& strokes_of(int digit) {
  static const std::vector<Stroke> kDigits[10] = {
      {{{.5, .5, .28, .4, -90, 270}}},
      {{{.36, .28}, {.52, .1}, {.52, .9}}},
      {{{.5, .31, .25, .21, 190, 395}, {.24, .9}, {.78, .88}}},
      {{{.48, .3, .24, .2, 200, 450}, {.48, .7, .27, .2, 270, 520}}},
      {{{.64, .9}, {.64, .1}, {.2, .62}, {.84, .62}}},
      {{{.75, .11}, {.33, .11}, {.29, .46}, {.48, .66, .27, .24, 230, 510}}},
      {{{.66, .1}, {.36, .4}, {.5, .68, .25, .22, 190, 550}}},
      {{{.22, .13}, {.78, .12}, {.42, .9}}},
      {{{.5, .3, .2, .19, 90, 450}, {.5, .7, .25, .21, -90, 270}}},
      {{{.49, .32, .23, .22, 0, 360}, {.72, .34}, {.64, .9}}},
  };
  return kDigits[digit];
}

// How one image differs from the ideal digit.
class Hand {
 public:
  explicit Hand(Rng& rng) {
    const double turn = .17 * rng.normal(), slant = .2 + .2 * rng.normal();
    const double wide = 20 * (.6 + .5 * rng.uniform()), high = 20 * (.78 + .3 * rng.uniform());
    xx_ = static_cast<float>(wide * std::cos(turn));
    xy_ = static_cast<float>(-high * (std::sin(turn) + slant));
    yx_ = static_cast<float>(wide * std::sin(turn));
    yy_ = static_cast<float>(high * std::cos(turn));
    centre_ = {static_cast<float>(14 + 1.2 * rng.normal()),
               static_cast<float>(14 + 1.2 * rng.normal())};
    for (float& phase : phases_) phase = static_cast<float>(2 * M_PI * rng.uniform());
    bend_ = static_cast<float>(.03 + .05 * rng.uniform());
  }

  // In pixels.
  Point place(Point p) const {
    const Point bent{p.x + bend_ * std::sin(7 * p.y + phases_[0]) - .5f,
                     p.y + bend_ * std::sin(7 * p.x + phases_[1]) - .5f};
    return {centre_.x + xx_ * bent.x + xy_ * bent.y, centre_.y + yx_ * bent.x + yy_ * bent.y};
  }

 private:
  float xx_, xy_, yx_, yy_, bend_;
  std::array<float, 2> phases_;
  Point centre_;
};

std::vector<Point> points_of(const Stroke& stroke, const Hand& hand) {
  std::vector<Point> points;
  for (const Piece& piece : stroke) {
    const float sweep = piece.to_degrees - piece.from_degrees;
    const int parts = static_cast<int>(std::ceil(sweep / 30));
    for (int i = 0; i <= parts; ++i) {
      const float degrees = piece.from_degrees + (parts > 0 ? sweep * i / parts : 0);
      const float angle = degrees * static_cast<float>(M_PI / 180);
      points.push_back(hand.place({piece.x + piece.radius_x * std::cos(angle),
                                   piece.y + piece.radius_y * std::sin(angle)}));
    }
  }
  return points;
}

using Canvas = std::array<float, kDigitPixels>;

// Ink up to `radius` around the line from a to b, with an edge one pixel soft.
void draw_line(Canvas& canvas, Point a, Point b, float radius) {
  const float reach = radius + .5f;
  const auto first = [&](float p, float q) {
    return std::max(0, static_cast<int>(std::ceil(std::min(p, q) - reach)));
  };
  const auto last = [&](float p, float q) {
    return std::min(kDigitSide - 1, static_cast<int>(std::floor(std::max(p, q) + reach)));
  };
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float scale = 1 / std::max(1e-6f, dx * dx + dy * dy);
  for (int y = first(a.y, b.y); y <= last(a.y, b.y); ++y)
    for (int x = first(a.x, b.x); x <= last(a.x, b.x); ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float along = std::clamp((px * dx + py * dy) * scale, 0.f, 1.f);
      const float off_x = px - along * dx, off_y = py - along * dy;
      const float ink = reach - std::sqrt(off_x * off_x + off_y * off_y);
      float& pixel = canvas[y * kDigitSide + x];
      pixel = std::max(pixel, std::min(ink, 1.f));
    }
}

// Adds noise of a deviation of about 12 of 255: sums of four bytes are near enough to normal.
void expose(const Canvas& canvas, float brightness, Rng& rng, std::span<std::uint8_t> image) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    bits = i % 2 == 0 ? rng() : bits >> 32;
    const int sum = static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) +
                                     (bits >> 24 & 255));
    const float value = 255 * brightness * canvas[i] + .08f * static_cast<float>(sum - 510);
    image[i] = static_cast<std::uint8_t>(std::clamp(value, 0.f, 255.f));
  }
}

// Draws image number `index` (0 background, 255 ink) and returns its digit. The same (seed, index)
// gives the same image.
int draw_digit(std::uint64_t seed, std::uint32_t index,
               std::span<std::uint8_t, kDigitPixels> image) {
  Rng rng(seed, static_cast<int>(index), purpose_of("digit"));
  const int digit = static_cast<int>(rng.below(10));
  const Hand hand(rng);
  const auto radius = static_cast<float>(.9 + 1.1 * rng.uniform());
  Canvas canvas{};
  for (const Stroke& stroke : strokes_of(digit)) {
    const std::vector<Point> points = points_of(stroke, hand);
    for (std::size_t i = 1; i < points.size(); ++i)
      draw_line(canvas, points[i - 1], points[i], radius);
  }
  expose(canvas, static_cast<float>(.75 + .25 * rng.uniform()), rng, image);
  return digit;
}

}  // namespace

Data open_digits(const Options& options, const OpenRequest& request) {
  const auto seed = static_cast<std::uint64_t>(options.integer("seed", 1));
  std::uint32_t next = 0;
  const auto make = [&](std::string_view key, std::int64_t otherwise, std::size_t limit) {
    const std::int64_t samples = options.integer(key, otherwise);
    if (samples < 1 || samples > 10'000'000)
      throw UsageError(
          fmt::format("{} of 'digits' must be from 1 to 10,000,000, not {}", key, samples));
    const std::size_t count = limit > 0 ? std::min<std::size_t>(samples, limit) : samples;
    const auto pixels = std::make_shared<std::vector<std::uint8_t>>(count * kDigitPixels);
    Facts facts{{1, kDigitSide, kDigitSide}, {}, 10};
    for (std::size_t i = 0; i < count; ++i)
      facts.labels.push_back(draw_digit(
          seed, next + static_cast<std::uint32_t>(i),
          std::span<std::uint8_t, kDigitPixels>(pixels->data() + i * kDigitPixels, kDigitPixels)));
    next += static_cast<std::uint32_t>(samples);
    const RawArray array{
        Element::u8, false, {count, kDigitPixels}, std::as_bytes(std::span(*pixels))};
    return std::make_unique<ArrayDataset>(std::move(facts), rows_of(array, 0, count, pixels),
                                          normal_from(options, {255, {.1307f}, {.3081f}}, 1));
  };
  Data data;
  data.name = "digits";
  data.train = make("samples", 60000, request.limit);
  data.test = make("test_samples", 10000, request.test_limit);
  return data;
}

}  // namespace lockstep
