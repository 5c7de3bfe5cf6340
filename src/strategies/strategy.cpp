#include "strategies/strategy.h"

#include <algorithm>
#include <numeric>

#include "strategies/average.h"
#include "transport/group.h"

namespace lockstep {

void Strategy::read_model(Replica& replica, Values model) {
  copy(model.bytes(), replica.weights().bytes());
  if (crew_.workers == 1) return;
  if (const double share = shares_in_model()[crew_.rank.rank()]; share != 1) scale(model, share);
  std::vector<int> workers(crew_.workers);
  std::iota(workers.begin(), workers.end(), 0);
  Group group(crew_.rank.peers, workers);
  // The copy need not lie where peers see it; round-robin gives the bits of `shared` anywhere.
  const AllReduceRow& collective =
      crew_.collective.name == "shared" ? all_reduce_named("round-robin") : crew_.collective;
  collective.run(group, {Purpose::evaluation}, model.as(Op::mean));
}

double Strategy::mass() const {
  return std::ranges::binary_search(crew_.idle, crew_.rank.rank()) ? 0 : 1;
}

double Strategy::own_share(const Step& step) const {
  return crew_.one_batch ? shares_of(step.samples)[crew_.rank.rank()] : 1;
}

Flow Strategy::flow_of_model(int, std::size_t count) const {
  std::vector<double> mean = shares_in_model();
  for (double& share : mean) share /= crew_.workers;
  mean.resize(crew_.ranks());
  return {{0, count}, {}, std::move(mean)};
}

}  // namespace lockstep
