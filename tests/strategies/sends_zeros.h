// A compressor that encodes zeros in place of what it is given: a bug that a statement of what is
// lost, with no bound to it, would cover.
#pragma once

#include <memory>
#include <vector>

#include "compression/compression.h"

namespace lockstep::testing {

class SendsZeros final : public Compressor {
 public:
  explicit SendsZeros(std::unique_ptr<Compressor> inner) : inner_(std::move(inner)) {}
  std::size_t most_bytes(std::size_t count) const override { return inner_->most_bytes(count); }

 protected:
  std::size_t write(std::span<const float> numbers, std::byte* message, const Draw& draw) override {
    std::vector<float> zeros(numbers.size());
    return inner_->encode({zeros.data(), zeros.size(), Type::fp32},
                          {message, inner_->most_bytes(zeros.size())}, draw);
  }
  void read(ConstBytes message, const Draw& of, float factor, std::span<float> into,
            Into how) override {
    const Values numbers(into.data(), into.size(), Type::fp32);
    how == Into::add ? inner_->add(message, of, factor, numbers)
                     : inner_->decode(message, of, numbers);
  }

 private:
  const std::unique_ptr<Compressor> inner_;
};

inline Compression sends_zeros(Compression compression) {
  compression.make = [make = compression.make] { return std::make_unique<SendsZeros>(make()); };
  return compression;
}

}  // namespace lockstep::testing
