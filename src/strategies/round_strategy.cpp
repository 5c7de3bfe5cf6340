#include "strategies/round_strategy.h"

#include "core/error.h"

namespace lockstep {

void mix(Values into, std::span<const double> factors, std::span<const Values> from) {
  if (into.is_hollow()) return;
  // A block of sums stays in the cache while all vectors are added to it.
  constexpr std::size_t kBlock = 2048;
  double sums[kBlock];
  auto* const out = reinterpret_cast<float*>(into.bytes().data);
  for (const Slice block : pieces({0, into.count()}, kBlock)) {
    std::fill_n(sums, block.count, 0.0);
    for (std::size_t k = 0; k < from.size(); ++k) {
      const auto* const v = reinterpret_cast<const float*>(from[k].bytes().data) + block.begin;
      for (std::size_t i = 0; i < block.count; ++i) sums[i] += factors[k] * double(v[i]);
    }
    for (std::size_t i = 0; i < block.count; ++i)
      out[block.begin + i] = static_cast<float>(sums[i]);
  }
}

RoundStrategy& in_rounds(Strategy& strategy) {
  if (strategy.parts().rounds) return *strategy.parts().rounds;
  throw InternalError("a strategy that does not go in rounds, where one that does is needed");
}

}  // namespace lockstep
