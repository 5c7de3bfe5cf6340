#include "strategies/rounds/round_strategy.h"

#include <cmath>

namespace lockstep {

void RoundStrategy::aggregate(const RoundModel& into, std::span<const RoundResult> results) {
  const std::vector<double> by = factors(results);
  for (std::size_t k = 0; k < results.size(); ++k)
    figures_.contributions.add(results[k].worker, by[k], 0);
  mix(into, results);
  if (proof_.on()) prove(into, by, results);
}

void RoundStrategy::update(Replica& replica, const Step& step) {
  book_.follow(replica, step, has_samples(step),
               [&](Replica& own) { own.apply_gradients(step.number); });
}

RoundProof RoundStrategy::proof_of(const RoundModel& model) const {
  const RoundProof now{proof_.of(model.weights), proof_.of(model.statistics)};
  if (made_ && (now.weights != made_->weights || now.statistics != made_->statistics))
    proof_.fail("the model is not what was made of the last round's results");
  return now;
}

void RoundStrategy::starts_from(Replica& replica, Values statistics, const RoundProof& given) {
  book_.forget();
  book_.follow(replica, [&](Replica&) { book_.becomes({{1, given.weights}}); });
  proof_.expect("statistics of the round's model", statistics, {{1, given.statistics}});
}

RoundProof RoundStrategy::comes_with(Replica& replica, Values statistics) const {
  book_.check_unchanged(replica.weights());
  return {proof_.of(replica.weights()), proof_.of(statistics)};
}

// `model` is that mean of the results, as their workers told them.
void RoundStrategy::prove(const RoundModel& model, const std::vector<double>& by,
                          std::span<const RoundResult> results) {
  std::vector<Term> weights, statistics;
  double all = 0, samples = 0;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const double had = by[k] * static_cast<double>(results[k].samples);
    weights.push_back({by[k], results[k].proof.weights});
    statistics.push_back({had, results[k].proof.statistics});
    all += by[k];
    samples += had;
  }
  // Not by_samples(), which is what is proved.
  for (std::size_t k = 0; k < results.size(); ++k)
    statistics[k].factor = samples > 0 ? statistics[k].factor / samples : by[k];
  if (!(std::abs(all - 1) < 1e-12))
    proof_.fail("what {} results count for adds up to {}", results.size(), all);
  const std::string what = fmt::format("mean of {} results", results.size());
  proof_.expect(what, model.weights, weights);
  proof_.expect("statistics in the " + what, model.statistics, statistics);
  made_ = RoundProof{proof_.of(model.weights), proof_.of(model.statistics)};
}

}  // namespace lockstep
