// Averaging once an epoch, by a manager (a student project after Dean et al.: Large scale
// distributed deep networks, 2012, which calls it a variant of Downpour; yet the manager waits for
// all, so it is the federated averaging of McMahan et al.: Communication-efficient learning of deep
// networks from decentralized data, 2017, with one local epoch and everybody taking part). In every
// epoch each worker trains one pass over its share of the samples, from the epoch's weights w and
// with a fresh optimiser, and the results w_n become
//
//   w <- sum_n a_n w_n,   average:  a_n = 1/m
//                         weighted: a_n = loss_n / sum loss  (uniform if that is 0)
//                         first:    a_0 = 1
//
// The last is what the published code did in effect: its sum never reached the model. 4N bytes go
// down and 4N up for each task, which the published system left to a shared folder.
#include <algorithm>
#include <array>

#include "strategies/registry.h"
#include "strategies/rounds/round_strategy.h"

namespace lockstep {
namespace {

enum class Rule { average, weighted, first };
constexpr std::array<std::string_view, 3> kRules{"average", "weighted", "first"};
constexpr std::array<std::string_view, 2> kExchanges{"messages", "files"};
constexpr std::array<std::string_view, 2> kReissues{"always", "never"};

// into[i] = sum over k of factors[k] · from[k][i], in that order, in double precision and rounded
// once: equal vectors, by factors that add up to one, come out as they are. Hollow: nothing.
void add_up(Values into, std::span<const double> factors, std::span<const Values> from) {
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

class EpochAverage final : public RoundStrategy {
 public:
  EpochAverage(const Crew& crew, Rule rule, const RoundTerms& terms)
      : RoundStrategy(crew), rule_(rule), terms_(terms) {}

  const RoundTerms& terms() const override { return terms_; }

  std::vector<double> factors(std::span<const RoundResult> results) const override {
    // A task without samples comes back with the weights that it was given: that is no result.
    const bool any = std::ranges::any_of(results, [](auto& r) { return r.samples > 0; });
    const auto counts = [&](const RoundResult& r) { return r.samples > 0 || !any; };
    double losses = 0;
    for (const RoundResult& r : results) losses += counts(r) ? loss_of(r) : 0;
    const auto m = static_cast<double>(std::ranges::count_if(results, counts));
    const auto first = std::ranges::find_if(results, counts);  // 0, unless it was dropped
    std::vector<double> a;
    for (auto r = results.begin(); r != results.end(); ++r) {
      if (!counts(*r))
        a.push_back(0);
      else if (rule_ == Rule::first)
        a.push_back(r == first ? 1 : 0);
      else
        a.push_back(rule_ == Rule::weighted && losses > 0 ? loss_of(*r) / losses : 1 / m);
    }
    return a;
  }

 private:
  void mix(const RoundModel& into, std::span<const RoundResult> results) override {
    const std::vector<double> by = factors(results);
    std::vector<Values> weights, statistics;
    for (const RoundResult& result : results) {
      weights.push_back(result.model.weights);
      statistics.push_back(result.model.statistics);
    }
    add_up(into.weights, by, weights);
    add_up(into.statistics, by_samples(by, results), statistics);
  }

  static double loss_of(const RoundResult& result) { return std::max(result.loss, 0.0); }

  // What each result's statistics count for: its factor times its samples, so that they add up to
  // one.
  static std::vector<double> by_samples(const std::vector<double>& factors,
                                        std::span<const RoundResult> results) {
    std::vector<double> by;
    double sum = 0;
    for (std::size_t k = 0; k < results.size(); ++k) {
      by.push_back(factors[k] * static_cast<double>(results[k].samples));
      sum += by.back();
    }
    if (sum == 0) return factors;
    for (double& factor : by) factor /= sum;
    return by;
  }

  const Rule rule_;
  const RoundTerms terms_;
};

}  // namespace

StrategyMaker epoch_average(const Options& options) {
  const Rule rule = static_cast<Rule>(options.choice("aggregate", kRules));
  const RoundTerms terms{.by_files = options.choice("exchange", kExchanges) == 1,
                         .tasks = {.give_up_s = options.seconds("give_up"),
                                   .reissue = options.choice("reissue", kReissues) == 0}};
  return {
      .make = [=](const Crew& crew) { return std::make_unique<EpochAverage>(crew, rule, terms); },
      .refuse =
          [=](const RunTerms& run) {
            if (terms.by_files && run.hollow)
              throw UsageError(
                  "numerics=off does not work with epoch-average: there are no numbers to "
                  "write to files; use exchange=messages");
          }};
}

}  // namespace lockstep
