// What the collectives' tests share: numbers to add up, where to keep them, and how to compare.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "collectives/all_gather.h"
#include "core/rng.h"
#include "core/values.h"
#include "measure/metered.h"
#include "transport/group.h"
#include "transport/rank.h"
#include "worlds.h"

namespace lockstep::testing {

inline constexpr Tag kTag{Purpose::gradients, 3};
inline constexpr Tag kCheck{Purpose::evaluation, 1};

// Not every transport can do everything. Routed ranks live on several hosts here.
inline bool shares_memory(const World& world) {
  return world.name != "ucx" && world.name != "routed";
}
inline bool spans_hosts(const World& world) { return world.name != "shm"; }
inline bool carries_hollow(const World& world) {
  return world.name == "loopback" || world.name == "simulated";
}

// Values of a rank, in a window of all ranks of the transport (so that `shared` works) or outside.
class Buffer {
 public:
  Buffer(Transport& transport, bool in_window, std::size_t bytes) : plain_(in_window ? 0 : bytes) {
    if (in_window) window_ = transport.open_window(std::max<std::size_t>(bytes, 1));
  }
  Values values(std::size_t count, Type type, Op op = Op::sum) {
    return {window_ ? window_->mine().data : plain_.data(), count, type, op};
  }
  std::span<float> floats(std::size_t count) {
    return {reinterpret_cast<float*>(values(count, Type::fp32).bytes().data), count};
  }

 private:
  std::unique_ptr<Window> window_;
  std::vector<std::byte> plain_;
};

// The first m ranks as a transport of their own, or nullptr on the other ranks.
inline std::unique_ptr<Group> first_ranks(Rank& rank, int m) {
  if (rank.rank() >= m) return nullptr;
  std::vector<int> ranks(m);
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<Group>(rank.peers, ranks);
}

// Integers small enough that sums of 16 are exact in every type, bf16 included. A prime period
// never lines up with chunks.
inline constexpr std::size_t kPeriod = 17;
inline int number_at(int rank, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % kPeriod) - 8;
}

// Copies the first `first` values over and over until the end.
inline void repeat(Values values, std::size_t first) {
  const Bytes all = values.bytes();
  std::size_t done = first * size_of(values.type());
  for (std::size_t more; done < all.size; done += more) {
    more = std::min(done, all.size - done);
    std::memcpy(all.data + done, all.data, more);
  }
}

// Writes one number, rounded to the type: of two that are as near the even one, as integer the one
// away from zero.
inline void put(Values values, std::size_t i, double x) {
  std::byte* at = values.bytes().data + i * size_of(values.type());
  const auto write = [at](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (values.type()) {
    case Type::fp32:
      return write(static_cast<float>(x));
    case Type::fp64:
      return write(x);
    case Type::fp16:
      return write(static_cast<_Float16>(x));
    case Type::bf16: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
      return write(static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }
    case Type::int32:
      return write(static_cast<std::int32_t>(std::llround(x)));
    case Type::int64:
      return write(static_cast<std::int64_t>(std::llround(x)));
    case Type::bytes:
      return write(static_cast<std::int8_t>(std::llround(x)));
  }
}

inline void fill(Values values, int rank) {
  const std::size_t first = std::min<std::size_t>(kPeriod, values.count());
  for (std::size_t i = 0; i < first; ++i) put(values, i, number_at(rank, i));
  repeat(values, first);
}

inline bool same_bits(Values a, const std::vector<std::byte>& b) {
  return a.bytes().size == b.size() &&
         (b.empty() || std::memcmp(a.bytes().data, b.data(), b.size()) == 0);
}

// What an all-reduce of fill()ed values over m ranks has to give, to the bit: their sums are exact.
inline std::vector<std::byte> expected(int m, std::size_t count, Type type, Op op) {
  std::vector<std::byte> total(count * size_of(type));
  const Values into(total.data(), count, type, op);
  const std::size_t first = std::min(kPeriod, count);
  for (std::size_t i = 0; i < first; ++i) {
    int sum = 0, least = kPeriod, most = -least;
    for (int rank = 0; rank < m; ++rank) {
      const int x = number_at(rank, i);
      sum += x, least = std::min(least, x), most = std::max(most, x);
    }
    const double mean = static_cast<double>(sum) / m;
    put(into, i, op == Op::sum ? sum : op == Op::mean ? mean : op == Op::min ? least : most);
  }
  if (count > 0) repeat(into, first);
  return total;
}

// Do all ranks hold these very bits?
inline bool same_everywhere(Transport& transport, Values values) {
  const Bytes bytes = values.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data), bytes.size);
  std::vector<std::uint64_t> hashes(transport.size());
  hashes[transport.rank()] = purpose_of(text);
  all_gather(transport, kCheck, {hashes.data(), hashes.size(), Type::int64});
  for (const std::uint64_t hash : hashes)
    if (hash != hashes[0]) return false;
  return true;
}

}  // namespace lockstep::testing
