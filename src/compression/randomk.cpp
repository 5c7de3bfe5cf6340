// k = ceil(ratio N) numbers at places drawn without replacement, every set of k places equally
// likely. All ranks draw the same places from Draw::shared(), so that no indices are sent: a
// message is k numbers in fp32, 4 k bytes, and those of all ranks can be added up. With error
// feedback numbers are sent as they are; without, times N / k, which makes it unbiased.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "compression/kernels.h"
#include "compression/registry.h"
#include "compression/topk.h"
#include "core/rng.h"

namespace lockstep {
namespace {

class RandomK final : public Compressor {
 public:
  RandomK(double ratio, bool scaled) : ratio_(ratio), scaled_(scaled) {}

  std::size_t most_bytes(std::size_t count) const override {
    return sizeof(float) * top_count(ratio_, 0, count);
  }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw& draw) override {
    draw_places(numbers.size(), draw.shared());
    auto* values = reinterpret_cast<float*>(message);
    // A NaN or infinity at a place that is not drawn must not go unseen.
    if (code_kernels().largest(numbers.data(), numbers.size()) >= 0x7f800000) {
      std::fill_n(values, places_.size(), std::numeric_limits<float>::quiet_NaN());
    } else {
      const float scale = scale_of(numbers.size());
      for (std::size_t i = 0; i < places_.size(); ++i) values[i] = numbers[places_[i]] * scale;
    }
    return most_bytes(numbers.size());
  }

  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    check_length(message, most_bytes(into.size()), into.size(), of);
    draw_places(into.size(), of.shared());
    const auto* values = reinterpret_cast<const float*>(message.data);
    if (how == Into::replace) std::ranges::fill(into, 0.f);
    for (std::size_t i = 0; i < places_.size(); ++i) into[places_[i]] += factor * values[i];
  }

 private:
  float scale_of(std::size_t count) const {
    return scaled_ ? static_cast<float>(static_cast<double>(count) /
                                        static_cast<double>(places_.size()))
                   : 1.f;
  }
  void draw_places(std::size_t count, std::uint64_t key);

  const double ratio_;
  const bool scaled_;
  std::vector<std::uint32_t> places_;  // ascending; of the last draw
  std::size_t count_ = 0;              // what it was among
  std::uint64_t key_ = 0;
  std::vector<std::uint64_t> is_drawn_;  // a bit for each number
};

// Floyd's: each of the last k numbers j draws a place up to j; one that is taken gives way to j
// itself, which can't be (Bentley and Floyd, CACM 1987). Places are then read off in order.
void RandomK::draw_places(std::size_t count, std::uint64_t key) {
  if (count == count_ && key == key_) return;
  Rng random(key, 0, purpose_of("random-k"));
  is_drawn_.assign((count + 63) / 64, 0);
  const auto take = [&](std::size_t place) {
    const std::uint64_t bit = std::uint64_t{1} << place % 64;
    const bool was_free = !(is_drawn_[place / 64] & bit);
    is_drawn_[place / 64] |= bit;
    return was_free;
  };
  const std::size_t k = top_count(ratio_, 0, count);
  for (std::size_t j = count - k; j < count; ++j)
    if (!take(random.below(j + 1))) take(j);
  places_.clear();
  places_.reserve(k);
  for (std::size_t word = 0; word < is_drawn_.size(); ++word)
    for (std::uint64_t bits = is_drawn_[word]; bits != 0; bits &= bits - 1)
      places_.push_back(static_cast<std::uint32_t>(64 * word) +
                        static_cast<std::uint32_t>(std::countr_zero(bits)));
  count_ = count;
  key_ = key;
}

}  // namespace

Compression randomk_compression(const Options& options) {
  const double ratio = above_zero(options, "ratio", 1);
  const bool feedback = options.flag("feedback");
  Compression c;
  c.averaging = Averaging::seeded;
  c.lossless = ratio == 1;
  c.biased = feedback && !c.lossless;
  c.draws = true;
  c.squared_error = [=](std::size_t) { return feedback ? 1 - ratio : 1 / ratio - 1; };
  // All that counts may be at places that were not drawn, or that were.
  c.most_squared_error = [=](std::size_t) {
    return feedback ? 1 : std::max(1.0, std::pow(1 / ratio - 1, 2));
  };
  c.make = [=] { return std::make_unique<RandomK>(ratio, !feedback); };
  if (c.biased) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
