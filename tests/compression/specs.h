// What the tests of compressors share: every way to encode, and messages of it.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/registry.h"
#include "core/rng.h"

namespace lockstep {

using Numbers = std::vector<float>;

inline Values values(Numbers& numbers) { return {numbers.data(), numbers.size(), Type::fp32}; }

// Every compressor that has messages, with its defaults and with what else takes another path.
inline std::vector<std::string> message_specs() {
  std::vector<std::string> specs;
  for (const CompressorRow& row : compressors())
    if (compression(row.name).make) specs.emplace_back(row.name);
  for (const char* more :
       {"fp16:scale=1024", "int8:bucket=100", "int8:stochastic=on", "qsgd:levels=1",
        "qsgd:levels=3,bucket=1000", "qsgd:levels=7", "qsgd:levels=20,bucket=3", "terngrad:clip=0",
        "terngrad:clip=0,bucket=64", "onebit:bucket=7", "sign:feedback=off", "topk:ratio=1",
        "topk:ratio=0.1,chunk=100", "randomk:ratio=0.3,feedback=off", "randomk:ratio=1",
        "threshold:tau=0.5", "dgc:ratio=0.3,warmup=0"})
    specs.emplace_back(more);
  return specs;
}

inline const std::vector<std::size_t>& odd_sizes() {
  static const std::vector<std::size_t> sizes = {0,   1,   2,   3,    5,    7,    8,    9,   15,
                                                 16,  17,  63,  64,   65,   100,  127,  129, 511,
                                                 512, 513, 999, 1024, 1537, 4099, 70001};
  return sizes;
}

inline Numbers normal_numbers(std::size_t count, std::uint64_t seed, double scale = 1) {
  Rng random(seed, 0, purpose_of("normal numbers"));
  Numbers numbers(count);
  for (float& x : numbers) x = static_cast<float>(scale * random.normal());
  return numbers;
}

// Whole numbers from -most to most: sums of them are exact.
inline Numbers whole_numbers(std::size_t count, std::uint64_t seed, int most = 50) {
  Rng random(seed, 0, purpose_of("whole numbers"));
  Numbers numbers(count);
  for (float& x : numbers)
    x = static_cast<float>(static_cast<int>(random.below(2u * static_cast<unsigned>(most) + 1)) -
                           most);
  return numbers;
}

struct Message {
  std::vector<std::uint32_t> words;  // at an address that is divisible by 4
  std::size_t size = 0;              // bytes

  Bytes room() { return {reinterpret_cast<std::byte*>(words.data()), words.size() * 4}; }
  ConstBytes bytes() const { return {words.data(), size}; }
};

inline Message room_for(const Compressor& code, std::size_t count) {
  return {std::vector<std::uint32_t>(code.most_bytes(count) / 4 + 1), 0};
}

inline Message encoded(Compressor& code, Numbers numbers, const Draw& draw = {}) {
  Message message = room_for(code, numbers.size());
  message.size = code.encode(values(numbers), message.room(), draw);
  return message;
}

inline Numbers decoded(Compressor& code, const Message& message, std::size_t count,
                       const Draw& draw = {}) {
  Numbers into(count, 123.f);
  code.decode(message.bytes(), draw, values(into));
  return into;
}

inline double squared_norm(const Numbers& v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return sum;
}

inline double squared_distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

}  // namespace lockstep
