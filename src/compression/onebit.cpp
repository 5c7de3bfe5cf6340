// 1-bit SGD: of each number only its sign, which decodes to the mean of the numbers in its bucket
// that have that sign; so the sum of a bucket is kept. What that leaves out is kept as error
// feedback, without which it does not train. (Seide et al., Interspeech 2014; columns there are
// buckets here.)
//
//   bytes for N numbers: 8 ceil(N / bucket) + ceil(N / 8); the means below zero and not, then bits
#include <algorithm>

#include "compression/packed_codes.h"
#include "compression/registry.h"

namespace lockstep {
namespace {

class OneBit final : public Compressor {
 public:
  explicit OneBit(std::size_t bucket) : bucket_(bucket) {}

  std::size_t most_bytes(std::size_t count) const override {
    return count == 0 ? 0 : 2 * sizeof(float) * buckets_of(count) + packed_bytes(count, 1);
  }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw&) override {
    auto* means = reinterpret_cast<float*>(message);
    const std::size_t buckets = buckets_of(numbers.size());
    for (std::size_t b = 0; b < buckets; ++b) {
      const std::size_t n = std::min(bucket_, numbers.size() - b * bucket_);
      const TwoSums sums = code_kernels().two_sums(numbers.data() + b * bucket_, n);
      const auto mean = [](double sum, std::size_t of) {
        return of == 0 ? 0.f : static_cast<float>(sum / static_cast<double>(of));
      };
      means[2 * b] = mean(sums.below, sums.count_below);
      means[2 * b + 1] = mean(sums.others, n - sums.count_below);
    }
    write_codes(numbers.size(), 1, reinterpret_cast<std::uint8_t*>(means + 2 * buckets),
                [&](std::size_t begin, std::size_t n, std::uint8_t* codes) {
                  code_kernels().signs(numbers.data() + begin, codes, n);
                });
    return most_bytes(numbers.size());
  }

  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    check_length(message, most_bytes(into.size()), into.size(), of);
    const auto* means = reinterpret_cast<const float*>(message.data);
    const auto* bits = reinterpret_cast<const std::uint8_t*>(means + 2 * buckets_of(into.size()));
    const auto either = how == Into::add ? code_kernels().add_either : code_kernels().either;
    read_codes(bits, 1, into, how == Into::replace,
               [&](std::size_t begin, std::size_t n, const auto* codes, float* where) {
                 for_each_run(begin, n, bucket_, [&](auto at, std::size_t run, std::size_t b) {
                   either(codes + (at - begin), means[2 * b] * factor, means[2 * b + 1] * factor,
                          where + (at - begin), run);
                 });
               });
  }

 private:
  std::size_t buckets_of(std::size_t count) const { return (count - 1) / bucket_ + 1; }

  const std::size_t bucket_;
};

}  // namespace

Compression onebit_compression(const Options& options) {
  const auto bucket = static_cast<std::size_t>(between(options, "bucket", 1, 1 << 24));
  Compression c;
  c.averaging = Averaging::gathered;
  // |v|^2 falls by the squares of both sums over their counts: by at least |v|^2 / d.
  c.squared_error = [=](std::size_t count) {
    return 1 - 1.0 / static_cast<double>(std::max<std::size_t>(1, std::min(count, bucket)));
  };
  c.make = [=] { return std::make_unique<OneBit>(bucket); };
  with_error_feedback(c);
  return c;
}

}  // namespace lockstep
