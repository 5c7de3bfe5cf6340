#include "compression/topk.h"

#include <algorithm>
#include <cmath>

#include "compression/registry.h"
#include "compression/selection.h"
#include "compression/sparse.h"

namespace lockstep {
namespace {

class TopK final : public Sparse {
 public:
  TopK(double ratio, std::size_t chunk) : ratio_(ratio), chunk_(chunk) {}

  std::size_t most_bytes(std::size_t count) const override {
    return kPair * top_count(ratio_, chunk_, count);
  }

 protected:
  std::size_t choose(std::span<const float> numbers, const Draw&, std::uint32_t* indices) override {
    const std::size_t chunk = chunk_ ? chunk_ : numbers.size();
    std::size_t taken = 0;
    for (std::size_t begin = 0; begin < numbers.size(); begin += chunk) {
      const std::size_t n = std::min(chunk, numbers.size() - begin);
      const std::size_t k = top_count(ratio_, 0, n);
      selection_.top(numbers.subspan(begin, n), k, static_cast<std::uint32_t>(begin),
                     indices + taken);
      taken += k;
    }
    return taken;
  }

 private:
  const double ratio_;
  const std::size_t chunk_;
  Selection selection_;
};

}  // namespace

std::size_t top_count(double ratio, std::size_t chunk, std::size_t count) {
  if (chunk > 0 && chunk < count)
    return count / chunk * top_count(ratio, 0, chunk) + top_count(ratio, 0, count % chunk);
  // The product may be off by a rounding: 0.01 of 300 is 3.
  const double product = ratio * static_cast<double>(count);
  return std::min(count, static_cast<std::size_t>(std::ceil(product * (1 - 0x1p-40))));
}

std::unique_ptr<Compressor> make_topk(double ratio, std::size_t chunk) {
  return std::make_unique<TopK>(ratio, chunk);
}

Compression topk_compression(const Options& options) {
  const double ratio = above_zero(options, "ratio", 1);
  const std::size_t chunk = options.size("chunk");
  Compression c;
  c.averaging = Averaging::gathered;
  c.lossless = ratio == 1;
  c.biased = !c.lossless;
  c.squared_error = [=](std::size_t) { return 1 - ratio; };
  c.make = [=] { return make_topk(ratio, chunk); };
  if (c.biased && options.flag("feedback")) with_error_feedback(c);
  return c;
}

}  // namespace lockstep
