// What every strategy promises, as checks of what a training did. Each returns what is wrong, so
// that the suite can be shown to see what is planted. What a strategy promises beyond the rules for
// all is read off its flows().
#pragma once

#include <algorithm>
#include <cmath>

#include "training.h"

namespace lockstep::testing {

using Complaints = std::vector<std::string>;

// One flow of one rank: of its weights, or of one of its memories.
struct Stated {
  const Flow& flow;
  std::size_t part;
  int rank, step;
  bool a_model;           // does it lead to a point where weights can be?
  std::string what;       // "weights", or the memory's name
  const Floats& result;   // where it led,
  std::size_t first = 0;  // from this weight on

  double result_at(std::size_t i) const {
    return i < first || i - first >= result.size() ? 0 : result[i - first];
  }
  bool bounds() const {
    return flow.weights_hold.how == Holds::How::shrunk ||
           flow.weights_hold.how == Holds::How::not_stated;
  }
};

inline std::vector<Stated> statements_of(const Training& training, const Outcome& outcome) {
  std::vector<Stated> all;
  for (int r = 0; r < training.ranks(); ++r)
    for (int t = 0; t < std::ssize(outcome[r].steps); ++t) {
      const Seen& seen = outcome[r].steps[t];
      for (std::size_t p = 0; p < seen.flows.size(); ++p)
        all.push_back({seen.flows[p], p, r, t, true, "weights", seen.after});
      for (const Remembered& memory : seen.memories)
        for (std::size_t p = 0; p < memory.flows.size(); ++p)
          all.push_back(
              {memory.flows[p], p, r, t, memory.a_model, memory.name, memory.after, memory.first});
    }
  return all;
}

inline double sum_of(const std::vector<double>& factors) {
  return std::accumulate(factors.begin(), factors.end(), 0.0);
}
inline bool all_zero(const std::vector<double>& factors) {
  return std::ranges::all_of(factors, [](double f) { return std::abs(f) < 1e-12; });
}

// Parts lie side by side and cover all, and the memories' are the same.
inline Complaints parts_are_sound(const Training& training, const Outcome& outcome) {
  Complaints wrong;
  for (const Record& record : outcome)
    for (const Seen& seen : record.steps) {
      std::size_t end = 0;
      for (const Flow& flow : seen.flows) {
        if (flow.part.begin != end) wrong.push_back("parts do not lie side by side");
        end = flow.part.end();
      }
      if (end != training.count) wrong.push_back("parts do not cover all");
      for (const Remembered& memory : seen.memories)
        if (!std::ranges::equal(memory.flows, seen.flows, {}, &Flow::part, &Flow::part))
          wrong.push_back("other parts of memory " + memory.name);
    }
  return wrong;
}

// In the mean of the steps that workers take, does every sample count once?
inline bool steps_count_every_sample_once(const Training& training, const Outcome& outcome, int t,
                                          std::size_t part) {
  std::vector<double> counts(training.workers);
  for (const Record& record : outcome) {
    const std::vector<double>& factors = record.steps[t].flows[part].gradients;
    for (std::size_t j = 0; j < factors.size(); ++j) counts[j] += factors[j];
  }
  const std::vector<std::size_t> samples = training.samples_at(t);
  const double all =
      static_cast<double>(std::accumulate(samples.begin(), samples.end(), std::size_t{0}));
  for (int j = 0; j < training.workers; ++j)
    if (std::abs(counts[j] / training.workers - static_cast<double>(samples[j]) / all) > 1e-12)
      return false;
  return true;
}

// Factors of points where weights can be add up to one where the result is such a point, and to
// zero where it is a difference; gradients to one where the optimiser steps, or, where workers step
// alone, to what makes every sample count once.
inline Complaints flows_are_sound(const Training& training, const Outcome& outcome) {
  Complaints wrong = parts_are_sound(training, outcome);
  for (const Stated& s : statements_of(training, outcome)) {
    const auto& memories = outcome[s.rank].steps[s.step].memories;
    const Flow& flow = s.flow;
    const bool sizes = flow.weights.size() == outcome.size() &&
                       (flow.gradients.empty() || std::ssize(flow.gradients) == training.workers) &&
                       (flow.before.empty() || flow.before.size() == outcome.size()) &&
                       flow.memory.size() <= memories.size();
    // A sum that only bounds the numbers need not add up.
    if (sizes && s.bounds()) continue;
    double sum = sum_of(flow.weights) + sum_of(flow.before);
    for (std::size_t k = 0; sizes && k < flow.memory.size(); ++k)
      if (memories[k].a_model) sum += flow.memory[k];
    for (const OfMemory& of : flow.memories_in_weights)
      if (memories[of.which].a_model) sum += of.before + of.after;
    const bool gradients = flow.gradients.empty() || s.what != "weights" ||
                           (training.claims.steps_by_samples
                                ? steps_count_every_sample_once(training, outcome, s.step, s.part)
                                : std::abs(sum_of(flow.gradients) - 1) < 1e-12);
    if (!sizes || !gradients || std::abs(sum - (s.a_model ? 1 : 0)) > 1e-12)
      wrong.push_back(fmt::format("step {}: factors of the {} of rank {} do not add up to {}",
                                  s.step, s.what, s.rank, s.a_model ? 1 : 0));
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
    if (factors[j] != 0) w -= Training::kRate * factors[j] * outcome[j].steps[t].gradients[i];
  for (const OfMemory& of : seen.flows[part].memories_in_gradients) {
    const Remembered& memory = outcome[of.rank].steps[t].memories[of.which];
    w -= Training::kRate * (of.before * memory.before_at(i) + of.after * memory.after_at(i));
  }
  return w;
}

// What a flow leads to in element i, and how large the numbers on the way are.
struct Expected {
  double value = 0, scale = 1e-6;
  void add(double factor, double of) {
    value += factor * of;
    scale += std::abs(of) * std::max(1.0, std::abs(factor));
  }
};
inline Expected expected(const Outcome& outcome, const Stated& s, std::size_t i) {
  Expected result;
  for (std::size_t j = 0; j < outcome.size(); ++j) {
    const int rank = static_cast<int>(j);
    result.add(s.flow.weights[j], stepped(outcome, s.step, s.part, rank, i));
    if (!s.flow.before.empty()) result.add(s.flow.before[j], outcome[j].steps[s.step].before[i]);
  }
  for (std::size_t k = 0; k < s.flow.memory.size(); ++k)
    result.add(s.flow.memory[k], outcome[s.rank].steps[s.step].memories[k].before_at(i));
  for (const OfMemory& of : s.flow.memories_in_weights) {
    const Remembered& memory = outcome[of.rank].steps[s.step].memories[of.which];
    result.add(of.before, memory.before_at(i));
    result.add(of.after, memory.after_at(i));
  }
  for (std::size_t j = 0; s.what != "weights" && j < s.flow.gradients.size(); ++j)
    result.add(s.flow.gradients[j], outcome[j].steps[s.step].gradients[i]);
  return result;
}

inline bool is_exactly(const Holds& holds) { return holds.how == Holds::How::exactly; }

// Is nothing said of the numbers that this leads to, or of gradients on the way?
inline bool nothing_is_stated(const Outcome& outcome, const Stated& s) {
  const auto nothing = [](const Holds& holds) { return holds.how == Holds::How::not_stated; };
  return nothing(s.flow.weights_hold) ||
         (s.what == "weights" &&
          nothing(outcome[s.rank].steps[s.step].flows[s.part].gradients_hold));
}

// How far an encoding may take element i from what a flow leads to: what is stated, and the
// rounding of gradients and memories that may be much larger than their sum.
inline double may_lose(const Training& training, const Outcome& outcome, const Stated& s,
                       std::size_t i) {
  if (s.what != "weights" || s.flow.gradients.empty()) return 0;
  const Holds& holds = s.flow.gradients_hold;
  const bool rounds = holds.how == Holds::How::within || !s.flow.memories_in_gradients.empty();
  double size = 0;
  for (int j = 0; rounds && j < training.workers; ++j)
    size += std::abs(s.flow.gradients[j] * outcome[j].steps[s.step].gradients[i]);
  for (const OfMemory& of : s.flow.memories_in_gradients) {
    const Remembered& memory = outcome[of.rank].steps[s.step].memories[of.which];
    size += std::abs(of.before * memory.before_at(i)) + std::abs(of.after * memory.after_at(i));
  }
  return Training::kRate * ((holds.by + 1e-6) * size + holds.plus);
}

// Every rank ends every step where its flows say, and so do its memories. REQUIRES: no momentum.
inline Complaints results_follow_the_flows(const Training& training, const Outcome& outcome) {
  for (const Stated& s : statements_of(training, outcome)) {
    if (nothing_is_stated(outcome, s)) continue;
    double square = 0, of_sum = 0;
    for (std::size_t i = s.flow.part.begin; i < s.flow.part.end(); ++i) {
      const Expected e = expected(outcome, s, i);
      square += s.result_at(i) * s.result_at(i);
      of_sum += e.value * e.value;
      const double most = 1e-5 * e.scale + may_lose(training, outcome, s, i);
      if (s.bounds() || std::abs(s.result_at(i) - e.value) <= most) continue;
      return {fmt::format("step {}, rank {}, {}, parameter {}: {} where the flows say {}", s.step,
                          s.rank, s.what, i, s.result_at(i), e.value)};
    }
    const Holds& holds = s.flow.weights_hold;
    const double most = holds.by * std::sqrt(of_sum) +
                        holds.plus * std::sqrt(static_cast<double>(s.flow.part.count));
    if (holds.how == Holds::How::shrunk && std::sqrt(square) > most * (1 + 1e-5) + 1e-6)
      return {fmt::format("step {}, rank {}: the norm of {} is {} where that of the sum is {}",
                          s.step, s.rank, s.what, std::sqrt(square), std::sqrt(of_sum))};
  }
  return {};
}

// Do the flows say that every worker takes the step of one worker with all the samples?
inline bool is_exact(const Training& training, const Outcome& outcome, int t) {
  const std::vector<std::size_t> samples = training.samples_at(t);
  const double all =
      static_cast<double>(std::accumulate(samples.begin(), samples.end(), std::size_t{0}));
  for (int r = 0; r < training.workers; ++r)
    for (std::size_t p = 0; p < outcome[r].steps[t].flows.size(); ++p) {
      const Flow& flow = outcome[r].steps[t].flows[p];
      if (!all_zero(flow.before) || !all_zero(flow.memory) || !flow.memories_in_weights.empty() ||
          !is_exactly(flow.weights_hold) || !is_exactly(flow.gradients_hold))
        return false;
      for (int g = 0; g < training.workers; ++g) {
        double counts = 0;
        for (int j = 0; j < training.ranks(); ++j) {
          const Flow& its = outcome[j].steps[t].flows[p];
          if (!its.memories_in_gradients.empty()) return false;
          if (!its.gradients.empty()) counts += flow.weights[j] * its.gradients[g];
        }
        if (std::abs(counts - static_cast<double>(samples[g]) / all) > 1e-12) return false;
      }
    }
  return true;
}

// Whoever is exact in every step equals one big batch, to the bit, and so do all workers each
// other. REQUIRES: whole numbers.
inline Complaints exact_equals_one_big_batch(const Training& training, const Outcome& outcome) {
  for (int t = 0; t < training.steps; ++t)
    if (!is_exact(training, outcome, t)) {
      if (!training.claims.exact) return {};
      return {fmt::format("step {}: it no longer says that it equals one big batch", t)};
    }
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

// Do the columns of the map say that the workers' mean moves by the mean of their own steps?
inline bool preserves_mean(const Training& training, const Outcome& outcome, int t, std::size_t p) {
  std::vector<double> columns(training.ranks()), before(training.ranks());
  for (int r = 0; r < training.workers; ++r) {
    const Flow& flow = outcome[r].steps[t].flows[p];
    if (!all_zero(flow.memory) || !flow.memories_in_weights.empty() ||
        !flow.memories_in_gradients.empty() || !is_exactly(flow.weights_hold) ||
        !is_exactly(flow.gradients_hold))
      return false;
    for (int j = 0; j < training.ranks(); ++j) {
      columns[j] += flow.weights[j];
      if (!flow.before.empty()) before[j] += flow.before[j];
    }
  }
  return all_zero(before) &&
         std::ranges::all_of(columns, [](double c) { return std::abs(c - 1) < 1e-12; });
}

// The mean over workers moves by the mean of their own steps, where the columns of the map say so.
inline Complaints mean_is_preserved(const Training& training, const Outcome& outcome) {
  for (int t = 0; t < training.steps; ++t)
    for (std::size_t p = 0; p < outcome[0].steps[t].flows.size(); ++p) {
      if (!preserves_mean(training, outcome, t, p)) {
        if (!training.claims.keeps_mean || training.samples != even_samples(training.workers))
          continue;
        return {fmt::format("step {}: it no longer says that it preserves the mean", t)};
      }
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

// Where a round ends, the workers' weights count as their samples in all of it do. (Other factors,
// of an outer optimiser, are the same for all.)
inline Complaints rounds_count_every_sample_once(const Training& training, const Outcome& outcome) {
  const int round = training.claims.round;
  for (int end = round; round > 0 && end <= training.steps; end += round) {
    std::vector<double> had(training.ranks());
    for (int t = end - round; t < end; ++t) {
      const auto samples = training.samples_at(t);
      for (int w = 0; w < training.workers; ++w) had[w] += static_cast<double>(samples[w]);
    }
    for (int r = 0; r < training.workers; ++r)
      for (const Flow& flow : outcome[r].steps[end - 1].flows)
        for (int j = 0; j < training.ranks(); ++j)
          if (std::abs(flow.weights[j] - sum_of(flow.weights) * had[j] / sum_of(had)) > 1e-12)
            return {fmt::format("step {}, rank {}: worker {} counts for {}, with {} of {} samples",
                                end - 1, r, j, flow.weights[j], had[j], sum_of(had))};
  }
  return {};
}

// And so does the model that is read where none has ended.
inline Complaints models_count_every_sample_once(const Training& training, const Outcome& outcome) {
  const int round = training.claims.round;
  if (round == 0 || training.steps % round == 0) return {};
  std::vector<double> had(training.ranks());
  for (int t = training.steps - training.steps % round; t < training.steps; ++t) {
    const auto samples = training.samples_at(t);
    for (int w = 0; w < training.workers; ++w) had[w] += static_cast<double>(samples[w]);
  }
  for (int r = 0; r < training.workers; ++r)
    for (int j = 0; j < training.ranks(); ++j)
      if (const double counts = outcome[r].of_model[0].weights[j];
          std::abs(counts - had[j] / sum_of(had)) > 1e-12)
        return {fmt::format("rank {}: worker {} counts for {} in the model, with {} of {} samples",
                            r, j, counts, had[j], sum_of(had))};
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

// The model is what the strategy says of it, from what all held after the last step.
inline Complaints models_follow_their_flows(const Training& training, const Outcome& outcome) {
  for (int r = 0; r < training.workers; ++r)
    for (std::size_t i = 0; i < outcome[r].model.size(); ++i) {
      const Flow& flow = outcome[r].of_model[0];
      Expected e;
      for (int j = 0; j < training.ranks(); ++j)
        e.add(flow.weights[j], outcome[j].steps.back().after[i]);
      for (std::size_t k = 0; k < flow.memory.size(); ++k)
        e.add(flow.memory[k], outcome[r].steps.back().memories[k].after[i]);
      if (std::abs(outcome[r].model[i] - e.value) <= 1e-5 * e.scale) continue;
      return {fmt::format("rank {}, parameter {} of the model: {} where the strategy says {}", r, i,
                          outcome[r].model[i], e.value)};
    }
  return {};
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
  for (const auto check :
       {flows_are_sound, results_follow_the_flows, exact_equals_one_big_batch, mean_is_preserved,
        rounds_count_every_sample_once, models_count_every_sample_once, models_follow_their_flows,
        bytes_are_as_promised}) {
    const Complaints some = check(training, outcome);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace lockstep::testing
