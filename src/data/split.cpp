#include "data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/names.h"
#include "core/options.h"
#include "core/slices.h"

namespace lockstep {
namespace {

Shards cut(const Shard& all, int workers) {
  Shards shards;
  for (int w = 0; w < workers; ++w) {
    const Slice part = chunk(all.size(), workers, w);
    shards.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(part.begin),
                        all.begin() + static_cast<std::ptrdiff_t>(part.end()));
  }
  return shards;
}

Shard all_of(const Samples& samples) {
  Shard all(samples.labels.size());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

Shards deal_contiguous(const Samples& samples, int workers, double, Rng&) {
  return cut(all_of(samples), workers);
}

Shards deal_random(const Samples& samples, int workers, double, Rng& rng) {
  Shard all = all_of(samples);
  shuffle(all, rng);
  return cut(all, workers);
}

// Like cards, class after class without starting over, so that the odd ones spread as well: neither
// a class nor the whole differs by more than one between workers.
Shards deal_equal(const Samples& samples, int workers, double, Rng& rng) {
  Shards shards(workers);
  std::size_t next = 0;
  for (Shard& of_class : samples.by_class()) {
    shuffle(of_class, rng);
    for (std::uint32_t sample : of_class) shards[next++ % workers].push_back(sample);
  }
  return shards;
}

Shards deal_class(const Samples& samples, int workers, double, Rng&) {
  std::vector<Shard> classes = samples.by_class();
  std::erase_if(classes, [](const Shard& of_class) { return of_class.empty(); });
  if (workers > std::ssize(classes))
    throw UsageError(
        fmt::format("--split class gives each worker classes of its own: {} workers are too many "
                    "for {} classes; use at most {}, or another split",
                    workers, classes.size(), classes.size()));
  Shards shards(workers);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    Shard& shard = shards[c % workers];
    shard.insert(shard.end(), classes[c].begin(), classes[c].end());
  }
  return shards;
}

// The logarithm of a gamma(alpha) draw, by Marsaglia and Tsang; for alpha < 1 from gamma(alpha + 1)
// times u^(1/alpha), whose logarithm does not vanish when alpha is tiny.
double log_gamma_draw(double alpha, Rng& rng) {
  const double d = alpha + 1 - 1. / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal(), cube = 1 + c * x, u = 1 - rng.uniform();
    if (cube <= 0) continue;
    const double v = cube * cube * cube;
    if (std::log(u) < x * x / 2 + d * (1 - v + std::log(v)))
      return std::log(d * v) + std::log(1 - rng.uniform()) / alpha;
  }
}

std::vector<double> dirichlet_draw(int workers, double alpha, Rng& rng) {
  std::vector<double> shares(workers);
  for (double& share : shares) share = log_gamma_draw(alpha, rng);
  const double most = *std::ranges::max_element(shares);
  for (double& share : shares) share = std::exp(share - most);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.);
  for (double& share : shares) share /= sum;
  return shares;
}

Shards deal_dirichlet(const Samples& samples, int workers, double alpha, Rng& rng) {
  Shards shards(workers);
  for (Shard& of_class : samples.by_class()) {
    shuffle(of_class, rng);
    const std::vector<double> shares = dirichlet_draw(workers, alpha, rng);
    double up_to = 0;
    std::size_t begin = 0;
    for (int w = 0; w < workers; ++w) {
      up_to += shares[w];
      const auto count = static_cast<double>(of_class.size());
      const std::size_t end =
          w + 1 == workers
              ? of_class.size()
              : std::min(of_class.size(), static_cast<std::size_t>(up_to * count + .5));
      for (std::size_t i = begin; i < end; ++i) shards[w].push_back(of_class[i]);
      begin = std::max(begin, end);
    }
  }
  return shards;
}

constexpr SplitRow kRows[] = {
#define SPLIT(function, name, description, keys) {name, description, keys},
#include "data/splits.def"
#undef SPLIT
};

}  // namespace

std::span<const SplitRow> splits() { return kRows; }

std::vector<Shard> Samples::by_class() const {
  std::vector<Shard> sorted(classes);
  for (std::size_t i = 0; i < labels.size(); ++i)
    sorted.at(labels[i]).push_back(static_cast<std::uint32_t>(i));
  return sorted;
}

Split::Split(std::string_view text) : text_(text), deal_(nullptr), alpha_(.5) {
  constexpr Deal kDeals[] = {
#define SPLIT(function, name, description, keys) deal_##function,
#include "data/splits.def"
#undef SPLIT
  };
  const SplitRow& row = row_named("split", Options::name_in(text), kRows);
  deal_ = kDeals[&row - kRows];
  std::vector<std::string_view> keys;
  if (!row.keys.empty()) keys.push_back(row.keys.substr(0, row.keys.find('=')));
  const Options options(text, keys);
  if (keys.empty()) return;
  alpha_ = options.number("alpha", alpha_);
  if (!(alpha_ > 0)) throw UsageError("alpha of 'dirichlet' must be above 0, such as 0.5");
}

Shards Split::deal(const Samples& samples, int workers, Rng rng) const {
  return deal_(samples, workers, alpha_, rng);
}

}  // namespace lockstep
