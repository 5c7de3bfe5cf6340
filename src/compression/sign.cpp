// Of each number only its sign; that of zero is +. With error feedback it decodes to the sign times
// the mean magnitude of what is encoded, |p|_1 / N, which makes it a contraction (EF-signSGD,
// Karimireddy et al., ICML 2019). Without it decodes to the sign alone, and ranks vote (signSGD
// with majority vote, Bernstein et al., ICLR 2019).
//
//   bytes for N numbers: 4 + ceil(N / 8); the scale, then bits
//
// A vote has a scale too, of 1, since nothing else could carry a NaN.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compression/packed_codes.h"
#include "compression/registry.h"

namespace lockstep {
namespace {

class Sign final : public Compressor {
 public:
  explicit Sign(bool votes) : votes_(votes) {}

  std::size_t most_bytes(std::size_t count) const override {
    return count == 0 ? 0 : sizeof(float) + packed_bytes(count, 1);
  }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw&) override {
    auto* scale = reinterpret_cast<float*>(message);
    auto* packed = reinterpret_cast<std::uint8_t*>(scale + 1);
    const double sum = code_kernels().pack_signs(numbers.data(), packed, numbers.size());
    const std::size_t rest = numbers.size() % kPacked, in_blocks = numbers.size() - rest;
    std::uint8_t codes[kPacked];
    code_kernels().signs(numbers.data() + in_blocks, codes, rest);
    pack_rest(codes, rest, 1, packed + packed_bytes(in_blocks, 1));
    *scale = !std::isfinite(sum) ? std::numeric_limits<float>::quiet_NaN()
             : votes_            ? 1
                                 : static_cast<float>(sum / static_cast<double>(numbers.size()));
    return most_bytes(numbers.size());
  }

  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    check_length(message, most_bytes(into.size()), into.size(), of);
    const auto* scale = reinterpret_cast<const float*>(message.data);
    const float unit = *scale * factor;
    const auto either = how == Into::add ? code_kernels().add_either : code_kernels().either;
    read_codes(reinterpret_cast<const std::uint8_t*>(scale + 1), 1, into, how == Into::replace,
               [&](std::size_t, std::size_t n, const std::uint8_t* codes, float* where) {
                 either(codes, -unit, unit, where, n);
               });
  }

 private:
  const bool votes_;
};

}  // namespace

Compression sign_compression(const Options& options) {
  const bool feedback = options.flag("feedback");
  Compression c;
  c.averaging = feedback ? Averaging::gathered : Averaging::voted;
  c.squared_error = [feedback](std::size_t count) {
    if (!feedback) return std::numeric_limits<double>::infinity();
    return 1 - 1 / static_cast<double>(std::max<std::size_t>(1, count));
  };
  c.make = [feedback] { return std::make_unique<Sign>(!feedback); };
  if (feedback) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
