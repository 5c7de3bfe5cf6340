#include "strategies/average.h"

#include <numeric>

namespace lockstep {

std::vector<double> shares_of(std::span<const std::size_t> samples) {
  const std::size_t total = std::accumulate(samples.begin(), samples.end(), std::size_t{0});
  std::vector<double> shares(samples.size(), 1);
  if (total == 0) return shares;
  for (std::size_t w = 0; w < shares.size(); ++w)
    shares[w] = static_cast<double>(samples[w] * samples.size()) / static_cast<double>(total);
  return shares;
}

std::vector<double> mean_factors(std::span<const std::size_t> samples, int ranks) {
  std::vector<double> factors = shares_of(samples);
  for (double& factor : factors) factor /= static_cast<double>(samples.size());
  factors.resize(ranks);
  return factors;
}

std::vector<double> only(int who, int ranks) {
  std::vector<double> factors(ranks);
  factors[who] = 1;
  return factors;
}

void average(const Crew& crew, Tag tag, Values values, std::span<const std::size_t> samples) {
  const double share = shares_of(samples)[crew.rank.rank()];
  if (share != 1) scale(values, share);
  crew.collective.run(crew.rank.peers, tag, values.as(Op::mean));
}

std::uint64_t average_bytes(const Crew& crew, int rank, std::size_t count) {
  return crew.collective.sent(count, place_of(crew.rank.peers), rank) * sizeof(float);
}

}  // namespace lockstep
