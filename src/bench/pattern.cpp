#include "bench/pattern.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr int kBases = 4;                       // ranks 0..3 differ in their base
constexpr std::size_t kBlock = 1024 * kPeriod;  // elements; a whole number of periods

template <class T>
void store(std::byte* at, int value) {
  const T typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof typed);
}

void store(std::byte* at, Type type, int value) {
  switch (type) {
    case Type::fp32:
      return store<float>(at, value);
    case Type::fp64:
      return store<double>(at, value);
    case Type::fp16:
      return store<_Float16>(at, value);
    case Type::int32:
      return store<std::int32_t>(at, value);
    case Type::int64:
      return store<std::int64_t>(at, value);
    case Type::bf16: {  // the upper half of a float: exact for the small numbers used here
      const std::uint16_t half = std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
      std::memcpy(at, &half, sizeof half);
      return;
    }
    case Type::bytes:
      break;  // no operator joins them, so nobody times that
  }
}

std::vector<std::byte> block_of(Type type, Pattern p, std::size_t first = 0) {
  const std::size_t width = size_of(type);
  std::vector<std::byte> block(kBlock * width);
  for (std::size_t i = 0; i < kBlock; ++i) store(&block[i * width], type, element(p, first + i));
  return block;
}

}  // namespace

Pattern contribution(int rank) { return {1, rank % kBases + 1}; }

Pattern sum_of_contributions(int ranks) {
  Pattern total{0, 0};
  for (int r = 0; r < ranks; ++r) {
    total.slope += contribution(r).slope;
    total.base += contribution(r).base;
  }
  return total;
}

int most_ranks(Type type) {
  const int largest_element = kPeriod - 1 + kBases;
  if (type == Type::bf16) return 256 / largest_element;
  if (type == Type::fp16) return 2048 / largest_element;
  return (1 << 24) / largest_element;
}

void fill(Bytes bytes, Type type, Pattern pattern) {
  if (bytes.hollow()) return;
  const auto block = block_of(type, pattern);
  for (std::size_t at = 0; at < bytes.size; at += block.size())
    std::memcpy(bytes.data + at, block.data(), std::min(block.size(), bytes.size - at));
}

std::size_t count_wrong(ConstBytes bytes, Type type, Pattern pattern, std::size_t first) {
  if (bytes.hollow()) return 0;
  const auto block = block_of(type, pattern, first);
  const std::size_t width = size_of(type);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < bytes.size; at += block.size()) {
    const std::size_t length = std::min(block.size(), bytes.size - at);
    if (std::memcmp(bytes.data + at, block.data(), length) == 0) continue;
    for (std::size_t i = 0; i < length; i += width)
      wrong += std::memcmp(bytes.data + at + i, block.data() + i, width) != 0;
  }
  return wrong;
}

}  // namespace lockstep::bench
