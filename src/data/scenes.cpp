// scenes: pictures to cut into parts. Digits of MNIST, or generated ones, lie scattered over a
// canvas in several sizes, and the mask says of each pixel whose ink it is: 0 nobody's, else 1 and
// the digit. A scene is made when it is read, from (seed, index) alone, so a set of any size takes
// no memory.
#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "data/open.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostTrain = 10000, kMostTest = 2000;  // digits to choose from
constexpr float kInk = 0.3f;  // so much of it makes a pixel the digit's

// A digit of the source and where it lies on the canvas, both square.
struct Placed {
  std::uint32_t digit;
  std::int64_t left, top, side;
};

class Scenes final : public Dataset {
 public:
  Scenes(Facts facts, std::unique_ptr<Dataset> source, int digits, std::uint64_t seed,
         std::uint64_t purpose)
      : Dataset(std::move(facts)),
        source_(std::move(source)),
        size_(shape()[1]),
        digits_(digits),
        seed_(seed),
        purpose_(purpose) {}

  void read(std::span<const std::uint32_t> indices, std::uint64_t, float* x) const override {
    for (std::uint32_t index : indices) {
      std::fill_n(x, values(), 0.0f);
      draw(index, [&](std::size_t pixel, float ink, int) { x[pixel] = std::max(x[pixel], ink); });
      x += values();
    }
  }
  void read_labels(std::span<const std::uint32_t> indices, std::uint64_t,
                   std::int64_t* y) const override {
    for (std::uint32_t index : indices) {
      std::fill_n(y, values(), 0);
      draw(index, [&](std::size_t pixel, float ink, int digit) {
        if (ink > kInk) y[pixel] = digit + 1;
      });
      y += values();
    }
  }

 private:
  std::vector<Placed> layout(std::uint32_t index) const {
    Rng rng(seed_, static_cast<int>(index), purpose_);
    std::vector<Placed> all;
    const auto least = static_cast<std::uint64_t>(size_ / 8), most = 2 * least + least / 2;
    for (int i = 0; i < digits_; ++i) {
      Placed next{};
      next.digit = static_cast<std::uint32_t>(rng.below(source_->size()));
      next.side = static_cast<std::int64_t>(least + rng.below(most - least + 1));
      const auto room = static_cast<std::uint64_t>(size_ - next.side + 1);
      next.left = static_cast<std::int64_t>(rng.below(room));
      next.top = static_cast<std::int64_t>(rng.below(room));
      all.push_back(next);
    }
    return all;
  }

  // Calls `paint(pixel, ink, digit)` for each pixel of each digit, from the lowest digit to the one
  // that lies on top.
  template <class Paint>
  void draw(std::uint32_t index, const Paint& paint) const {
    const std::int64_t drawn = source_->shape()[1];
    std::vector<float> image(source_->values());
    for (const Placed& at : layout(index)) {
      source_->read({&at.digit, 1}, 0, image.data());
      const int digit = source_->labels()[at.digit];
      for (std::int64_t row = 0; row < at.side; ++row)
        for (std::int64_t column = 0; column < at.side; ++column)
          paint(static_cast<std::size_t>((at.top + row) * size_ + at.left + column),
                image[static_cast<std::size_t>(row * drawn / at.side * drawn +
                                               column * drawn / at.side)],
                digit);
    }
  }

  const std::unique_ptr<Dataset> source_;
  const std::int64_t size_;
  const int digits_;
  const std::uint64_t seed_, purpose_;
};

std::int64_t in_range(const Options& options, std::string_view key, std::int64_t otherwise,
                      std::int64_t least, std::int64_t most) {
  const std::int64_t value = options.integer(key, otherwise);
  if (value < least || value > most)
    throw UsageError(
        fmt::format("{} of 'scenes' must be from {} to {}, not {}", key, least, most, value));
  return value;
}

Data open_source(const Options& options, OpenRequest request) {
  request.limit = kMostTrain;
  request.test_limit = kMostTest;
  const std::string of = options.text("of", "mnist"), plain = "mean=0,deviation=1";  // ink, 0 to 1
  if (of == "digits") return open_data("digits:" + plain, request);
  if (of != "mnist") throw UsageError(fmt::format("scenes:of={}: give 'mnist' or 'digits'", of));
  const std::string dir = options.text("dir", "");
  return open_data(fmt::format("mnist:{}{}", dir.empty() ? "" : "dir=" + dir + ",", plain),
                   request);
}

// Where its files are, as a key of ours.
std::string dir_in(const Data& source) {
  if (source.name != "mnist") return "";
  constexpr std::string_view kKeys[] = {"dir", "mean", "deviation"};
  return "dir=" + Options(source.spec, kKeys).text("dir") + ",";
}

}  // namespace

Data open_scenes(const Options& options, const OpenRequest& request) {
  constexpr std::int64_t kMany = 10'000'000, kTrain = 1024, kTest = 128;
  const std::int64_t size = in_range(options, "size", 256, 16, 8192);
  const auto digits = static_cast<int>(in_range(options, "digits", 12, 1, 10000));
  const std::uint64_t seed = options.integer("seed", 1);
  Data source = open_source(options, request);
  const auto make = [&](std::string_view key, std::int64_t otherwise, std::size_t limit,
                        std::unique_ptr<Dataset> from, std::string_view purpose) {
    std::size_t samples = in_range(options, key, otherwise, 1, kMany);
    if (limit > 0) samples = std::min(samples, limit);
    Facts facts{{1, size, size}, std::vector<int>(samples), 11, {size, size}};
    return std::make_unique<Scenes>(std::move(facts), std::move(from), digits, seed,
                                    purpose_of(purpose));
  };
  Data data;
  data.train = make("samples", kTrain, request.limit, std::move(source.train), "scene");
  data.test = make("test_samples", kTest, request.test_limit, std::move(source.test), "test scene");
  data.name = "scenes of " + source.name;
  data.notices = std::move(source.notices);
  data.spec =
      fmt::format("scenes:of={},{}size={},digits={},samples={},test_samples={},seed={}",
                  source.name, dir_in(source), size, digits, options.integer("samples", kTrain),
                  options.integer("test_samples", kTest), seed);
  return data;
}

}  // namespace lockstep
