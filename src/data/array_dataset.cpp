#include "data/array_dataset.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "core/units.h"

namespace lockstep {
namespace {

std::vector<float> numbers_from(const Options& options, std::string_view key,
                                std::vector<float> otherwise, std::int64_t channels) {
  if (!options.has(key)) return otherwise;
  std::vector<float> numbers;
  for (const std::string& text : options.list(key))
    numbers.push_back(static_cast<float>(parse_number(text)));
  if (numbers.size() != 1 && std::ssize(numbers) != channels)
    throw UsageError(fmt::format("{} of '{}': give one number, or one for each of {} channels", key,
                                 options.name(), channels));
  return numbers;
}

}  // namespace

Normal normal_from(const Options& options, Normal otherwise, std::int64_t channels) {
  otherwise.mean = numbers_from(options, "mean", std::move(otherwise.mean), channels);
  otherwise.deviation =
      numbers_from(options, "deviation", std::move(otherwise.deviation), channels);
  if (std::ranges::any_of(otherwise.deviation, [](float d) { return !(d > 0); }))
    throw UsageError(fmt::format("deviation of '{}' must be above 0", options.name()));
  return otherwise;
}

Rows rows_of(const RawArray& array, std::size_t first, std::size_t count,
             std::shared_ptr<const void> owner) {
  Rows rows{array.element, array.swapped, {}, {std::move(owner)}};
  rows.at.reserve(count);
  for (std::size_t i = first; i < first + count; ++i)
    rows.at.push_back(array.body.data() + i * array.bytes_each());
  return rows;
}

ArrayDataset::ArrayDataset(Facts facts, Rows rows, Normal normal, int crop)
    : Dataset(std::move(facts)), rows_(std::move(rows)), normal_(std::move(normal)), crop_(crop) {
  if (rows_.at.size() != size())
    throw InternalError(fmt::format("{} samples with {} labels", rows_.at.size(), size()));
  for (std::size_t c = 0; c < std::max(normal_.mean.size(), normal_.deviation.size()); ++c) {
    auto& table = of_byte_.emplace_back();
    for (int byte = 0; byte < 256; ++byte)
      table[byte] =
          (static_cast<float>(byte) / normal_.unit - normal_.mean_of(c)) / normal_.deviation_of(c);
  }
}

void ArrayDataset::normalise(const std::byte* raw, float* x) const {
  const std::size_t channels = of_byte_.size(), each = values() / channels;
  if (rows_.element == Element::u8) {
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = c * each; i < (c + 1) * each; ++i)
        x[i] = of_byte_[c][std::to_integer<std::uint8_t>(raw[i])];
    return;
  }
  to_floats(rows_.element, rows_.swapped, raw, values(), x);
  for (std::size_t c = 0; c < channels; ++c) {
    const float unit = normal_.unit, mean = normal_.mean_of(c);
    const float deviation = normal_.deviation_of(c);
    for (std::size_t i = c * each; i < (c + 1) * each; ++i) x[i] = (x[i] / unit - mean) / deviation;
  }
}

void ArrayDataset::move(std::uint32_t index, std::uint64_t variation, const float* from,
                        float* to) const {
  Rng rng(variation, static_cast<int>(index), purpose_of("crop"));
  const std::int64_t channels = shape()[0], height = shape()[1], width = shape()[2];
  const auto shift = [&] { return static_cast<std::int64_t>(rng.below(2 * crop_ + 1)) - crop_; };
  const std::int64_t down = shift(), right = shift();
  const bool mirror = rng.below(2) == 1;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float zero = of_byte_[of_byte_.size() == 1 ? 0 : c][0];
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t from_y = y + down, from_x = (mirror ? width - 1 - x : x) + right;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        *to++ = inside ? from[(c * height + from_y) * width + from_x] : zero;
      }
  }
}

void ArrayDataset::read(std::span<const std::uint32_t> indices, std::uint64_t variation,
                        float* x) const {
  std::vector<float> still(crop_ > 0 ? values() : 0);
  for (std::uint32_t index : indices) {
    normalise(rows_.at[index], crop_ > 0 ? still.data() : x);
    if (crop_ > 0) move(index, variation, still.data(), x);
    x += values();
  }
}

}  // namespace lockstep
