// What every strategy promises whose ranks go apart, as checks of what a training did: see
// contract.h. Who must promise what is listed.
#pragma once

#include <cmath>
#include <map>

#include "contract.h"
#include "strategies/servers/central_cases.h"

namespace lockstep::testing {

struct ApartClaims {
  bool plain_alone = true;  // one worker is plain SGD, to the bit
  // Where every step of every worker is found once, when all rest: in the model at the servers (or
  // in shared memory), in the workers' mean, in that and the centre together, or in the workers'
  // mean by their masses.
  enum class In { model, mean, mean_and_centre, mean_by_mass } all_steps_are = In::model;
  bool rests_on_the_model = false;  // the replicas are the model then
};

// A strategy that goes apart and is not here fails the suite.
inline const std::map<std::string, ApartClaims>& apart_claims() {
  using In = ApartClaims::In;
  static const std::map<std::string, ApartClaims> all = {
      {"asp", {true, In::model, true}},
      {"ssp", {true, In::model, true}},
      {"easgd", {false, In::mean_and_centre, false}},
      {"downpour", {true, In::model, false}},
      {"gossip", {true, In::mean_by_mass, false}},
      {"hogwild", {true, In::model, true}},
      {"ad-psgd", {true, In::mean, false}},
  };
  return all;
}
inline ApartClaims claims_apart(const std::string& spec) {
  return apart_claims().at(std::string(strategy_named(spec).name));
}

// Three workers at paces of their own, and one that computes nothing and is told all the same.
inline ApartTraining apart_of(int servers, MakeOnRank make) {
  ApartTraining t;
  t.make = std::move(make);
  t.workers = 3;
  t.servers = servers;
  t.step_s = {0.1, 0.1317, 0.1713};  // no two steps end at the same time
  t.gradient = [](int w, int step, std::span<const float> weights, std::span<float> out) {
    whole_gradient(w, step, weights, out);
    if (w == 1) std::ranges::fill(out, 0.0f);
  };
  return t;
}
inline ApartTraining apart_of(const std::string& spec, MakeOnRank make) {
  return apart_of(strategy_named(spec).has_servers() ? 2 : 0, std::move(make));
}
inline ApartTraining apart_of(const std::string& spec) {
  return apart_of(spec, [spec](const Crew& crew) { return make_strategy(spec, crew); });
}

// All steps of all workers in `t`, as the sum of their gradients of parameter i: those of one batch
// by their samples.
inline double all_gradients(const ApartTraining& t, std::size_t i) {
  double sum = 0;
  Floats gradient(t.count);
  for (int step = 0; step < t.steps; ++step) {
    const auto samples = samples_in(t, step);
    const double mean =
        static_cast<double>(std::accumulate(samples.begin(), samples.end(), std::size_t{0})) /
        t.workers;
    for (int w = 0; w < t.workers; ++w) {
      t.gradient(w, step, {}, gradient);
      sum += (t.one_batch ? static_cast<double>(samples[w]) / mean : 1) * gradient[i];
    }
  }
  return sum;
}

inline Complaints every_step_counts_once(const ApartTraining& t, const ApartClaims& claims,
                                         const ApartOutcome& outcome) {
  using In = ApartClaims::In;
  double masses = 0;
  for (int w = 0; w < t.workers; ++w) masses += outcome[w].mass;
  if (claims.all_steps_are == In::mean_by_mass)
    return std::abs(masses - 1) < 1e-12
               ? Complaints{}
               : Complaints{fmt::format("the masses add up to {}", masses)};
  for (std::size_t i = 0; i < t.count; ++i) {
    double found = claims.all_steps_are == In::mean ? 0 : outcome[0].model[i];
    double start = claims.all_steps_are == In::mean ? 0 : 1;
    for (int w = 0; w < t.workers && claims.all_steps_are != In::model; ++w) {
      found += outcome[w].rested[i];
      start += 1;
    }
    const double due = start * static_cast<double>(i % 7) - t.rate * all_gradients(t, i);
    if (!(std::abs(found - due) <= 1e-4 * (1 + std::abs(due))))
      return {fmt::format("parameter {}: the steps add up to {} where {} is due", i, found, due)};
  }
  return {};
}

inline Complaints whoever_computes_nothing_is_told(const ApartTraining& t, const ApartClaims&,
                                                   const ApartOutcome& outcome) {
  Floats start(t.count);
  for (std::size_t i = 0; i < t.count; ++i) start[i] = static_cast<float>(i % 7);
  if (same_bits(outcome[1].after.back(), start)) return {"worker 1 never heard of the others"};
  return {};
}

inline Complaints all_have_the_model(const ApartTraining& t, const ApartClaims& claims,
                                     const ApartOutcome& outcome) {
  Complaints wrong;
  for (int w = 0; w < t.workers; ++w) {
    if (t.servers > 0 && !same_bits(outcome[w].model, model_at_servers(t, outcome)))
      wrong.push_back(fmt::format("worker {} was told another model than the servers hold", w));
    if (!same_bits(outcome[w].model, outcome[0].model))
      wrong.push_back(fmt::format("worker {} was told another model than worker 0", w));
    if (claims.rests_on_the_model && !same_bits(outcome[w].rested, outcome[w].model))
      wrong.push_back(fmt::format("worker {} goes on from something else than the model", w));
  }
  return wrong;
}

// In one simulation: with three workers, and alone.
inline Complaints complaints_apart(const ApartTraining& t, const ApartClaims& claims) {
  ApartTraining one = t;
  one.workers = 1;
  one.momentum = 0.9f;
  one.gradient = rough_gradient;
  auto outcomes = run_apart_all(simulated_world(), {t, one});
  // Whoever has no model elsewhere has the mean of the workers, which is what each rests on.
  for (int w = 0; w < t.workers && claims.rests_on_the_model; ++w)
    if (outcomes[0][w].model.empty()) outcomes[0][w].model = outcomes[0][w].rested;
  Complaints all;
  for (const auto check :
       {every_step_counts_once, whoever_computes_nothing_is_told, all_have_the_model}) {
    const Complaints some = check(t, claims, outcomes[0]);
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::vector<Floats> expected = alone(one);
  for (int step = 0; step < one.steps && claims.plain_alone; ++step)
    if (!same_bits(outcomes[1][0].after[step], expected[step]))
      all.push_back(fmt::format("alone it is not plain SGD in step {}", step));
  return all;
}

inline Complaints complaints_apart(const std::string& spec, const MakeOnRank& make) {
  return complaints_apart(apart_of(spec, make), claims_apart(spec));
}

}  // namespace lockstep::testing
