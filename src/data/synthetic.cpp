// Random numbers of any shape, for benchmarks: reading a sample is one copy. Samples are stretches
// of one pool of normal numbers, so that a set of any size fits in memory. There is nothing to
// learn.
#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/rng.h"
#include "core/units.h"
#include "data/open.h"

namespace lockstep {
namespace {

constexpr std::size_t kStarts = 4099;  // a prime: so many different samples

class Synthetic final : public Dataset {
 public:
  Synthetic(Facts facts, std::uint64_t seed, std::uint32_t first)
      : Dataset(std::move(facts)), first_(first), pool_(values() + kStarts) {
    Rng rng(seed, 0, purpose_of("synthetic"));
    for (float& number : pool_) number = static_cast<float>(rng.normal());
  }

  void read(std::span<const std::uint32_t> indices, std::uint64_t, float* x) const override {
    for (std::uint32_t index : indices) {
      const std::uint64_t start = (std::uint64_t{first_} + index) * 2654435761u % kStarts;
      x = std::copy_n(pool_.begin() + static_cast<std::ptrdiff_t>(start), values(), x);
    }
  }

 private:
  const std::uint32_t first_;
  std::vector<float> pool_;
};

Shape parse_shape(const std::string& text) {
  Shape shape;
  double values = 1;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    shape.push_back(parse_integer(text.substr(at, end - at)));
    values *= static_cast<double>(shape.back());
    if (shape.back() < 1 || values > 1e9)
      throw UsageError(fmt::format("shape of 'synthetic': '{}' is not one such as 3x32x32", text));
    at = end + 1;
  }
  return shape;
}

std::size_t count(const Options& options, std::string_view key, std::int64_t otherwise,
                  std::size_t limit) {
  const std::int64_t n = options.integer(key, otherwise);
  if (n < 1 || n > std::numeric_limits<std::int32_t>::max())
    throw UsageError(
        fmt::format("{} of '{}' must be from 1 to 2^31-1, not {}", key, options.name(), n));
  return limit > 0 ? std::min<std::size_t>(n, limit) : n;
}

}  // namespace

Data open_synthetic(const Options& options, const OpenRequest& request) {
  const Shape shape = parse_shape(options.text("shape", "3x32x32"));
  const auto classes = static_cast<int>(count(options, "classes", 10, 0));
  const std::uint64_t seed = options.integer("seed", 1);
  const auto make = [&](std::size_t samples, std::uint32_t first) {
    Facts facts{shape, std::vector<int>(samples), classes};
    for (std::size_t i = 0; i < samples; ++i) facts.labels[i] = static_cast<int>(i % classes);
    return std::make_unique<Synthetic>(std::move(facts), seed, first);
  };
  Data data;
  data.name = "synthetic";
  const std::size_t samples = count(options, "samples", 1024, request.limit);
  data.train = make(samples, 0);
  data.test = make(count(options, "test_samples", 256, request.test_limit),
                   static_cast<std::uint32_t>(samples));
  return data;
}

}  // namespace lockstep
