// Samples that lie in memory (or in mapped files) as numbers: read, converted, normalised and
// written to the batch in one pass.
#pragma once

#include <array>

#include "core/options.h"
#include "data/dataset.h"
#include "data/raw_array.h"

namespace lockstep {

// x = (raw / unit - mean) / deviation, in fp32 and in that order, as PyTorch users have it. One
// mean and deviation for all numbers, or one for each channel.
struct Normal {
  float unit = 1;
  std::vector<float> mean{0}, deviation{1};

  float mean_of(std::size_t channel) const { return mean[mean.size() == 1 ? 0 : channel]; }
  float deviation_of(std::size_t channel) const {
    return deviation[deviation.size() == 1 ? 0 : channel];
  }
};
// The keys `mean` and `deviation`, one number or a list of one for each of `channels`.
Normal normal_from(const Options&, Normal otherwise, std::int64_t channels);

// Where each sample's numbers are. `owners` keep that memory alive; they are shared because train
// and test set may lie in one file.
struct Rows {
  Element element = Element::u8;
  bool swapped = false;
  std::vector<const std::byte*> at;
  std::vector<std::shared_ptr<const void>> owners;
};
// The samples [first, first + count) of an array.
Rows rows_of(const RawArray&, std::size_t first, std::size_t count,
             std::shared_ptr<const void> owner);

class ArrayDataset final : public Dataset {
 public:
  // `crop` > 0: each read moves the picture by up to so many pixels and mirrors every other one.
  // It fills with raw zeros. REQUIRES then: shape is channels, height, width.
  ArrayDataset(Facts, Rows, Normal, int crop = 0);

  void read(std::span<const std::uint32_t> indices, std::uint64_t variation,
            float* x) const override;

 private:
  void normalise(const std::byte* raw, float* x) const;
  void move(std::uint32_t index, std::uint64_t variation, const float* from, float* to) const;

  Rows rows_;
  Normal normal_;
  int crop_;
  std::vector<std::array<float, 256>> of_byte_;  // by channel: what a byte becomes
};

}  // namespace lockstep
