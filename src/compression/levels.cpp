#include "compression/levels.h"

#include <bit>
#include <cmath>
#include <limits>

#include "compression/packed_codes.h"

namespace lockstep {
namespace {

class Levels final : public Compressor {
 public:
  explicit Levels(const LevelsRule& rule)
      : rule_(rule),
        bits_(static_cast<int>(std::bit_width(2u * static_cast<unsigned>(rule.levels)))) {}

  std::size_t most_bytes(std::size_t count) const override {
    return sizeof(float) * scales_of(count) + packed_bytes(count, bits_);
  }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw& draw) override;
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override;

 private:
  std::size_t bucket_of(std::size_t count) const { return rule_.bucket ? rule_.bucket : count; }
  std::size_t scales_of(std::size_t count) const {
    return count == 0 ? 0 : (count - 1) / bucket_of(count) + 1;
  }
  float scale_of(std::span<const float> bucket) const;
  // The codes of numbers that have one scale; `first` is the index of the first.
  void encode_run(std::span<const float> numbers, float scale, std::uint64_t key,
                  std::uint32_t first, std::uint8_t* codes) const;

  const LevelsRule rule_;
  const int bits_;
};

float Levels::scale_of(std::span<const float> bucket) const {
  const CodeKernels& k = code_kernels();
  const std::uint32_t largest = k.largest(bucket.data(), bucket.size());
  if (largest >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  double scale = std::bit_cast<float>(largest);
  if (rule_.scale == LevelsRule::Scale::norm)
    scale = std::sqrt(k.sum_of_squares(bucket.data(), bucket.size()));
  if (rule_.clip > 0) {
    const auto n = static_cast<double>(bucket.size());
    const double mean = k.sum(bucket.data(), bucket.size()) / n;
    const double variance = k.sum_of_squares(bucket.data(), bucket.size()) / n - mean * mean;
    const double most = rule_.clip * std::sqrt(std::max(variance, 0.0));
    if (most > 0) scale = std::min(scale, most);  // equal numbers deviate by nothing
  }
  return static_cast<float>(scale);
}

void Levels::encode_run(std::span<const float> numbers, float scale, std::uint64_t key,
                        std::uint32_t first, std::uint8_t* codes) const {
  if (!(scale >= kLeastScale && scale <= std::numeric_limits<float>::max())) {
    std::fill_n(codes, numbers.size(), static_cast<std::uint8_t>(rule_.levels));
    return;
  }
  const float per_unit = static_cast<float>(rule_.levels) / scale;
  if (rule_.stochastic)
    code_kernels().drawn(numbers.data(), per_unit, rule_.levels, key, first, codes, numbers.size());
  else
    code_kernels().nearest(numbers.data(), per_unit, rule_.levels, codes, numbers.size());
}

std::size_t Levels::write(std::span<const float> numbers, std::byte* message, const Draw& draw) {
  const std::size_t bucket = bucket_of(numbers.size()), scales = scales_of(numbers.size());
  auto* scale = reinterpret_cast<float*>(message);
  auto* packed = reinterpret_cast<std::uint8_t*>(scale + scales);
  const std::uint64_t key = draw.own();
  write_codes(numbers.size(), bits_, packed, [&](std::size_t begin, std::size_t n, auto* codes) {
    for_each_run(begin, n, bucket, [&](std::size_t at, std::size_t run, std::size_t b) {
      if (at == b * bucket)  // the numbers of a bucket are still in the cache when they are encoded
        scale[b] = scale_of(numbers.subspan(at, std::min(bucket, numbers.size() - at)));
      encode_run(numbers.subspan(at, run), scale[b], key, static_cast<std::uint32_t>(at),
                 codes + (at - begin));
    });
  });
  return most_bytes(numbers.size());
}

void Levels::read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
                  Into how) {
  check_length(message, most_bytes(into.size()), into.size(), of);
  const std::size_t bucket = bucket_of(into.size());
  const auto* scale = reinterpret_cast<const float*>(message.data);
  const auto* packed = reinterpret_cast<const std::uint8_t*>(scale + scales_of(into.size()));
  const auto units = how == Into::add ? code_kernels().add_units : code_kernels().units;
  read_codes(packed, bits_, into, how == Into::replace,
             [&](std::size_t begin, std::size_t n, const auto* codes, float* where) {
               for_each_run(begin, n, bucket, [&](auto at, std::size_t run, std::size_t b) {
                 const float unit = scale[b] / static_cast<float>(rule_.levels) * factor;
                 units(codes + (at - begin), rule_.levels, unit, where + (at - begin), run);
               });
             });
}

}  // namespace

std::unique_ptr<Compressor> make_levels(const LevelsRule& rule) {
  return std::make_unique<Levels>(rule);
}

}  // namespace lockstep
