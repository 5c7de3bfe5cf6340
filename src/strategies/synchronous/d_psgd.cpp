// D-PSGD: every worker mixes its weights with its neighbours' on a graph and takes its own step
// (Lian et al.: Can decentralized algorithms outperform centralized algorithms?, 2017):
//
//   x_i' = sum_j M_ij x_j - eta g_i(x_i)
//
// The gradient is that of the weights before the mix. M is symmetric and doubly stochastic, so the
// mean over workers moves only by the mean of their steps. All graphs here look the same from every
// worker: with d neighbours each, M_ij = 1/(d+1) for them and for the worker itself. A worker sends
// d·N elements. Momentum stays each worker's own. Where batches are uneven worker i's step counts
// for its samples over the workers' mean, so that in the mean of steps every sample counts once.
#include <optional>

#include "collectives/messages.h"
#include "collectives/scratch.h"
#include "strategies/add_scaled.h"
#include "strategies/average.h"
#include "strategies/registry.h"

namespace lockstep {
namespace {

enum class Graph { ring, exponential, complete };

class DPsgd final : public Strategy, public Statement {
 public:
  DPsgd(const Crew& crew, Graph graph) : Strategy(crew, {.statement = this}), graph_(graph) {}

  void begin(Replica& replica) override {
    pull_.emplace(replica.weights(), replica.weights().count());
  }

  // As x_i - sum_j (x_i - x_j)/(d+1), so that equal weights come back to the bit. The step is added
  // to x_i alone, and x_i stays as it is until the neighbours have it.
  void update(Replica& replica, const Step& step) override {
    const std::vector<int> neighbours = neighbours_of(crew_.rank.rank());
    const double degree = static_cast<double>(neighbours.size());
    const Values x = replica.weights(), pull = pull_->values();
    Messages messages(crew_.rank.peers, tag_of(Purpose::weights, step), segment_bytes_if_busy(x));
    for (const int j : neighbours) messages.send(j, x);
    messages.fold_distances(neighbours, x, pull);
    messages.run();
    const double share = shares_of(step.samples)[crew_.rank.rank()];
    replica.apply_gradients(step.number, share);
    if (!neighbours.empty()) add_scaled(x, -1 / (degree + 1), pull);
  }

  std::vector<Flow> flows(const Step& step, int rank, std::size_t count) const override {
    const std::vector<int> neighbours = neighbours_of(rank);
    const double degree = static_cast<double>(neighbours.size());
    std::vector<double> m_less_one(crew_.workers);
    for (const int j : neighbours) m_less_one[j] = 1 / (degree + 1);
    m_less_one[rank] = -degree / (degree + 1);
    const auto own = only(rank, crew_.workers);
    auto gradients = own;
    gradients[rank] = shares_of(step.samples)[rank];
    return {{{0, count}, gradients, own, m_less_one}};
  }

  // Whoever mixes is part of the mean, with samples or without.
  double mass() const override { return 1; }

  std::uint64_t bytes_sent(const Step&, int rank, std::size_t count) const override {
    return neighbours_of(rank).size() * count * size_of(Type::fp32);
  }

 private:
  // Ascending. In each graph a hop there comes with the hop back.
  std::vector<int> neighbours_of(int rank) const {
    const int m = crew_.workers;
    std::vector<bool> near(m);
    for (int hop = 1; hop < m; hop = graph_ == Graph::exponential ? 2 * hop : hop + 1) {
      near[(rank + hop) % m] = near[(rank + m - hop) % m] = true;
      if (graph_ == Graph::ring) break;
    }
    std::vector<int> neighbours;
    for (int j = 0; j < m; ++j)
      if (near[j]) neighbours.push_back(j);
    return neighbours;
  }

  const Graph graph_;
  std::optional<Scratch> pull_;  // sum_j (x_i - x_j)
};

}  // namespace

StrategyMaker d_psgd(const Options& options) {
  constexpr std::string_view graphs[] = {"ring", "exponential", "complete"};
  const auto graph = static_cast<Graph>(options.choice("graph", graphs));
  return {[=](const Crew& crew) { return std::make_unique<DPsgd>(crew, graph); }};
}

}  // namespace lockstep
