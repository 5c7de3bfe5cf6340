// What every strategy promises, as checks of what a training did. Each returns what is wrong, so
// that the suite can be shown to see what is planted. What a strategy promises beyond the rules for
// all is read off its flows().
#pragma once

#include <algorithm>
#include <cmath>

#include "training.h"

namespace lockstep::testing {

using Complaints = std::vector<std::string>;

// Parts lie side by side and cover all; weights are mixed by factors that add up to one; gradients
// too, where the optimiser steps.
inline Complaints flows_are_sound(const Training& training, const Outcome& outcome) {
  Complaints wrong;
  const auto adds_up = [](const std::vector<double>& factors) {
    return std::abs(std::accumulate(factors.begin(), factors.end(), 0.0) - 1) < 1e-12;
  };
  for (int r = 0; r < training.ranks(); ++r)
    for (const Seen& seen : outcome[r].steps) {
      std::size_t end = 0;
      for (const Flow& flow : seen.flows) {
        if (flow.part.begin != end) wrong.push_back("parts do not lie side by side");
        end = flow.part.end();
        const bool sizes =
            flow.weights.size() == outcome.size() &&
            (flow.gradients.empty() || std::ssize(flow.gradients) == training.workers);
        if (!sizes || !adds_up(flow.weights) ||
            (!flow.gradients.empty() && !adds_up(flow.gradients)))
          wrong.push_back(fmt::format("factors of rank {} do not add up to one", r));
      }
      if (end != training.count) wrong.push_back("parts do not cover all");
    }
  return wrong;
}

// Where rank r's optimiser leaves weight i, by the map: its weights less the rate times the mix of
// gradients.
inline double stepped(const Outcome& outcome, int t, std::size_t part, int r, std::size_t i) {
  const Seen& seen = outcome[r].steps[t];
  double w = seen.before[i];
  const std::vector<double>& factors = seen.flows[part].gradients;
  for (std::size_t j = 0; j < factors.size(); ++j)
    w -= Training::kRate * factors[j] * outcome[j].steps[t].gradients[i];
  return w;
}

// Every rank ends every step where its flows say. REQUIRES: no momentum.
inline Complaints results_follow_the_flows(const Training& training, const Outcome& outcome) {
  for (int t = 0; t < training.steps; ++t)
    for (int r = 0; r < training.ranks(); ++r) {
      const Seen& seen = outcome[r].steps[t];
      for (std::size_t p = 0; p < seen.flows.size(); ++p)
        for (std::size_t i = seen.flows[p].part.begin; i < seen.flows[p].part.end(); ++i) {
          double expected = 0, scale = 1e-6;
          for (int j = 0; j < training.ranks(); ++j) {
            const double w = stepped(outcome, t, p, j, i);
            expected += seen.flows[p].weights[j] * w;
            scale += std::abs(w);
          }
          if (std::abs(seen.after[i] - expected) <= 1e-5 * scale) continue;
          return {fmt::format("step {}, rank {}, parameter {}: {} where the flows say {}", t, r, i,
                              seen.after[i], expected)};
        }
    }
  return {};
}

// Do the flows say that every worker takes the step of one worker with all the samples?
inline bool is_exact(const Training& training, const Outcome& outcome, int t) {
  const double all = static_cast<double>(
      std::accumulate(training.samples.begin(), training.samples.end(), std::size_t{0}));
  for (int r = 0; r < training.workers; ++r)
    for (std::size_t p = 0; p < outcome[r].steps[t].flows.size(); ++p)
      for (int g = 0; g < training.workers; ++g) {
        double counts = 0;
        for (int j = 0; j < training.ranks(); ++j) {
          const auto& gradients = outcome[j].steps[t].flows[p].gradients;
          if (!gradients.empty()) counts += outcome[r].steps[t].flows[p].weights[j] * gradients[g];
        }
        if (std::abs(counts - training.samples[g] / all) > 1e-12) return false;
      }
  return true;
}

// Whoever is exact in every step equals one big batch, to the bit, and so do all workers each
// other. REQUIRES: whole numbers.
inline Complaints exact_equals_one_big_batch(const Training& training, const Outcome& outcome) {
  for (int t = 0; t < training.steps; ++t)
    if (!is_exact(training, outcome, t)) return {};
  const std::vector<Floats> alone = one_big_batch(training);
  Complaints wrong;
  for (int r = 0; r < training.workers; ++r) {
    for (int t = 0; t < training.steps; ++t)
      if (!same_bits(outcome[r].steps[t].after, alone[t]))
        wrong.push_back(fmt::format("worker {} differs from one big batch after step {}", r, t));
    if (!same_bits(outcome[r].model, alone.back()))
      wrong.push_back(fmt::format("worker {}'s model differs from one big batch", r));
  }
  return wrong;
}

// The mean over workers moves by the mean of their own steps, where the columns of the map say so.
inline Complaints mean_is_preserved(const Training& training, const Outcome& outcome) {
  for (int t = 0; t < training.steps; ++t)
    for (std::size_t p = 0; p < outcome[0].steps[t].flows.size(); ++p) {
      std::vector<double> columns(training.ranks());
      for (int r = 0; r < training.workers; ++r)
        for (int j = 0; j < training.ranks(); ++j)
          columns[j] += outcome[r].steps[t].flows[p].weights[j];
      if (std::ranges::any_of(columns, [](double c) { return std::abs(c - 1) > 1e-12; })) continue;
      const Slice part = outcome[0].steps[t].flows[p].part;
      for (std::size_t i = part.begin; i < part.end(); ++i) {
        double expected = 0, mean = 0, scale = 1e-6;
        for (int r = 0; r < training.workers; ++r) {
          expected += stepped(outcome, t, p, r, i);
          mean += outcome[r].steps[t].after[i];
          scale += std::abs(mean) + std::abs(expected);
        }
        if (std::abs(mean - expected) > 1e-5 * scale)
          return {fmt::format("step {}, parameter {}: the mean is not preserved", t, i)};
      }
    }
  return {};
}

inline Complaints bytes_are_as_promised(const Training& training, const Outcome& outcome) {
  Complaints wrong;
  for (int r = 0; r < training.ranks(); ++r)
    for (std::size_t t = 0; t < outcome[r].steps.size(); ++t) {
      const Seen& seen = outcome[r].steps[t];
      if (seen.sent != seen.promised)
        wrong.push_back(fmt::format("step {}, rank {} sent {} bytes and promised {}", t, r,
                                    seen.sent, seen.promised));
    }
  return wrong;
}

inline Complaints same_as(const Outcome& a, const Outcome& b) {
  Complaints wrong;
  for (std::size_t r = 0; r < a.size(); ++r)
    for (std::size_t t = 0; t < a[r].steps.size(); ++t)
      if (!same_bits(a[r].steps[t].after, b[r].steps[t].after))
        wrong.push_back(fmt::format("step {}, rank {}: other bits", t, r));
  return wrong;
}

// All that holds for one training in whole numbers.
inline Complaints complaints_about(const Training& training, const Outcome& outcome) {
  Complaints all;
  for (const auto check : {flows_are_sound, results_follow_the_flows, exact_equals_one_big_batch,
                           mean_is_preserved, bytes_are_as_promised}) {
    const Complaints some = check(training, outcome);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace lockstep::testing
