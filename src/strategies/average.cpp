#include "strategies/average.h"

#include <numeric>

#include "transport/group.h"

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

const AllReduceRow& collective_for(const Crew& crew, Values values) {
  if (crew.collective.sent) return crew.collective;
  Transport& peers = crew.rank.peers;
  return choose(values.bytes().size, place_of(peers), window_of_all(peers, values) != nullptr);
}

std::uint64_t average_bytes(const Crew& crew, int rank, Values values) {
  return collective_for(crew, values).sent(values.count(), place_of(crew.rank.peers), rank) *
         size_of(values.type());
}

void read_mean(const Crew& crew, Values weights, Values model, std::span<const double> shares) {
  copy(model.bytes(), weights.bytes());
  if (crew.workers == 1) return;
  if (const double share = shares[crew.rank.rank()]; share != 1) scale(model, share);
  std::vector<int> workers(crew.workers);
  std::iota(workers.begin(), workers.end(), 0);
  Group group(crew.rank.peers, workers);
  // The copy need not lie where peers see it; round-robin gives the bits of `shared` anywhere.
  const AllReduceRow& own = collective_for(crew, weights);
  const AllReduceRow& collective = own.name == "shared" ? all_reduce_named("round-robin") : own;
  collective.run(group, {Purpose::evaluation}, model.as(Op::mean));
}

Flow flow_of_mean(const Crew& crew, std::size_t count, std::vector<double> shares) {
  for (double& share : shares) share /= crew.workers;
  shares.resize(crew.ranks());
  return {{0, count}, {}, std::move(shares)};
}

}  // namespace lockstep
