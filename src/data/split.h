// Who gets which samples: pure functions of labels and seed, the same on every rank, so that each
// knows everybody's share without a message. Every sample goes to exactly one worker.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/rng.h"

namespace lockstep {

using Shard = std::vector<std::uint32_t>;  // sample numbers
using Shards = std::vector<Shard>;         // by worker

// What there is to split.
struct Samples {
  std::span<const int> labels;
  int classes = 0;
  std::vector<Shard> by_class() const;  // ascending
};

// --split NAME[:key=value]. A value; compare, copy, send as text().
class Split {
 public:
  // UsageError: unknown name or key, alpha not above 0.
  explicit Split(std::string_view text = "random");

  const std::string& text() const { return text_; }
  // UsageError: `class` with more workers than there are classes among the samples.
  Shards deal(const Samples&, int workers, Rng) const;

 private:
  using Deal = Shards (*)(const Samples&, int workers, double alpha, Rng&);
  std::string text_;
  Deal deal_;
  double alpha_;
};

struct SplitRow {
  std::string_view name, description, keys;  // keys with their defaults
};
std::span<const SplitRow> splits();

// A new order, every one equally likely. std::shuffle differs between libraries.
template <class T>
void shuffle(std::vector<T>& all, Rng& rng) {
  for (std::size_t left = all.size(); left > 1; --left)
    std::swap(all[left - 1], all[rng.below(left)]);
}

}  // namespace lockstep
