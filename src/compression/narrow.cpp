#include "compression/narrow.h"

#include "compression/streamed.h"

namespace lockstep {
namespace {

class Narrow final : public Compressor {
 public:
  Narrow(Type type, float scale) : which_(type == Type::fp16 ? 0 : 1), scale_(scale) {}

  std::size_t most_bytes(std::size_t count) const override { return count * sizeof(std::uint16_t); }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw&) override {
    Streamed<std::uint16_t> out({reinterpret_cast<std::uint16_t*>(message), numbers.size()});
    out.write_all([&](std::size_t begin, std::size_t n, std::uint16_t* where) {
      code_kernels().narrow[which_](numbers.data() + begin, scale_, where, n);
    });
    return most_bytes(numbers.size());
  }
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    check_length(message, most_bytes(into.size()), into.size(), of);
    const auto* from = reinterpret_cast<const std::uint16_t*>(message.data);
    const float by = factor / scale_;
    if (how == Into::add)
      return code_kernels().add_widened[which_](from, by, into.data(), into.size());
    Streamed<float>(into).write_all([&](std::size_t begin, std::size_t n, float* where) {
      code_kernels().widen[which_](from + begin, by, where, n);
    });
  }

 private:
  const int which_;
  const float scale_;
};

}  // namespace

Compression narrow_compression(Type type, float scale) {
  Compression c;
  c.averaging = Averaging::additive;
  c.type = type;
  // Half a unit in the last place of 1, squared.
  const double bound = type == Type::fp16 ? 0x1p-22 : 0x1p-16;
  c.squared_error = [bound](std::size_t) { return bound; };
  // Half of the smallest number in half precision: what is subnormal there is off by as much.
  if (type == Type::fp16) c.most_error_of_each = 0x1p-25 / scale;
  c.make = [=] { return std::make_unique<Narrow>(type, scale); };
  return c;
}

}  // namespace lockstep
