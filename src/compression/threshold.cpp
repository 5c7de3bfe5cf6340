// The numbers whose magnitude is above tau, strictly: with tau = 0 only zeros are left out, and
// nothing is lost but their sign. Only the rank that encodes them knows how many there are.
#include <bit>
#include <cmath>
#include <limits>

#include "compression/kernels.h"
#include "compression/registry.h"
#include "compression/sparse.h"
#include "core/error.h"

namespace lockstep {
namespace {

class Threshold final : public Sparse {
 public:
  Threshold(float tau, double share) : tau_(tau), share_(share) {}

  std::size_t most_bytes(std::size_t count) const override { return kPair * count; }

 protected:
  // Straight into the message, which has room for the indices of all numbers and as many more.
  std::size_t choose(std::span<const float> numbers, const Draw&, std::uint32_t* indices) override {
    static_assert(kPair >= 2 * sizeof(std::uint32_t));
    const std::uint32_t least = std::bit_cast<std::uint32_t>(tau_) + 1;
    if (numbers.size() >= kSlack)
      return code_kernels().above(numbers.data(), numbers.size(), least, 0, indices,
                                  numbers.size());
    std::uint32_t few[2 * kSlack];
    const std::size_t k =
        code_kernels().above(numbers.data(), numbers.size(), least, 0, few, numbers.size());
    std::copy_n(few, k, indices);
    return k;
  }
  std::size_t hollow_bytes(std::size_t count, const Draw&) const override {
    return kPair * static_cast<std::size_t>(std::ceil(share_ * static_cast<double>(count)));
  }

 private:
  const float tau_;
  const double share_;
};

}  // namespace

Compression threshold_compression(const Options& options) {
  const double tau = options.number("tau"), share = above_zero(options, "share", 1);
  if (!(tau >= 0 && tau <= std::numeric_limits<float>::max()))
    throw UsageError(fmt::format("tau of 'threshold' is {}: at least 0", tau));
  Compression c;
  c.averaging = Averaging::gathered;
  c.lossless = tau == 0;
  c.biased = !c.lossless;
  c.squared_error = [tau](std::size_t) { return tau == 0 ? 0.0 : 1.0; };
  c.most_squared_error = [](std::size_t) { return 0; };
  c.most_error_of_each = tau;
  c.make = [=] { return std::make_unique<Threshold>(static_cast<float>(tau), share); };
  if (c.biased && options.flag("feedback")) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
